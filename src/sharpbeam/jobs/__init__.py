"""Resumable bulk jobs: whole files in, whole files out."""
