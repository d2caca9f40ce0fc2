"""The output layers: hidden vectors to candidates."""
