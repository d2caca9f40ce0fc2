"""The transformer encoder-decoder, and its relative whose decoder is recurrent (SSRU)."""
