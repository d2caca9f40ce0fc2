"""Tables of the sharp-models paper."""
