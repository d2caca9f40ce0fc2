"""Text <-> ids, and reading lines so that lines in are lines out."""
