"""`python -m sharpbeam`: the command line."""

from sharpbeam.cli.main import program

program()
