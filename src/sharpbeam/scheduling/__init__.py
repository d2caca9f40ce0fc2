"""Scheduling: which requests are decoded together, and when."""
