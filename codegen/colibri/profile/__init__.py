"""Where the instructions of one token or one call go: by function, step, layer and memory, and what varies."""
