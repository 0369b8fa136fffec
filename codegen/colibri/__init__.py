"""Colibri turns a Mixture-of-Experts checkpoint into firmware."""

__version__ = "0.1.0"
