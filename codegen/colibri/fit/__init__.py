"""Make it fit: find the recipe with the least loss that a board has room for, and build it."""
