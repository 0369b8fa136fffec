"""A model in the debugger: stops at ops, buffers by name."""
