"""The loop that joins model, output layer, search and schedule, and sessions over it."""
