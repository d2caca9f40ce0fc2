"""Methods of others for large output layers, by the same interface, to be measured against (L2S section 4)."""
