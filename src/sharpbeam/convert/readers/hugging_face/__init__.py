"""Models of Hugging Face: a table of families in `read.py`, and a file for each family."""
