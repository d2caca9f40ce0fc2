"""Models: ids to hidden vectors, never logits; each with a PyTorch module and a native twin."""
