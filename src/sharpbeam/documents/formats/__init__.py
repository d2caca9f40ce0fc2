"""Formats of documents: each reads segments from a document, and writes it again with their translations."""
