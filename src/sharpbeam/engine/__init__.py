"""The loop that joins model, projection, search and schedule, and what users call: Translator."""
