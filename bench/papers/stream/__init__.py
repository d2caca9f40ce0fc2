"""Tables of the streaming beam search paper."""
