"""The text contract: what must not change in a translation does not change."""
