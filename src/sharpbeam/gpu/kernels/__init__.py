"""Triton kernels. A module here is imported where it runs: on a CUDA device, or in Triton's interpreter."""
