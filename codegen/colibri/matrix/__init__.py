"""Many models on many boards at once: what is built, fits, runs, and gives the same bits."""
