"""How good and how fast a model is."""
