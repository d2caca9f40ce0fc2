"""What others have proposed for large output layers, behind the same door, to be measured against (L2S section 4)."""
