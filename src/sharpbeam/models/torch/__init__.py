"""The PyTorch backend of the models: for training, and as a reference."""
