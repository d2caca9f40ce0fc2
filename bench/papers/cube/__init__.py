"""Tables of the cube pruning paper."""
