"""Training: text and a recipe in, a model folder out. Needs PyTorch (the extra `train`)."""
