"""Decoding on a GPU: output layers in Triton, models in PyTorch. Needs the extra `gpu`."""
