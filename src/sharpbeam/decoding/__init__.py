"""The loop that joins model, output layer, search and schedule, and what users call: Translator."""
