"""`python -m colibri`."""

from colibri.cli import run_and_exit

run_and_exit()
