"""What a model is worth on data: loss, errors, agreement with the original. It runs as a program of this machine."""
