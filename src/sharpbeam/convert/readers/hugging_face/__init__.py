"""Models of Hugging Face: a table of families in `families.py`, and a file for each family."""
