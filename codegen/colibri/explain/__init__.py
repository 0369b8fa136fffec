"""Why a recipe does not fit a board, and the cheapest ways to make it fit."""
