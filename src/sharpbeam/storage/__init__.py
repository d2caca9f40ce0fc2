"""Model folders and fitted artifacts on disk."""
