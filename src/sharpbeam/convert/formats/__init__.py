"""Readers of file formats: safetensors, npz, PyTorch, CTranslate2, Marian, YAML."""
