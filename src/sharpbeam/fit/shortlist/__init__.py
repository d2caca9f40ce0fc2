"""Lexical shortlists: from word alignment, or from the files of other engines."""
