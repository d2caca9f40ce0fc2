"""Fitting the preview of a model's output layer.

`job` collects hidden vectors and writes preview.json and .safetensors (arrays: output_layers/preview.py), `fit`
computes; `convert` calls it.
"""
