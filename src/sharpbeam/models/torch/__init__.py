"""The PyTorch modules of the models: for training, GPU, and as a reference."""
