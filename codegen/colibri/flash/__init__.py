"""Write the product to a board, with whichever tool is here."""
