"""The output layers' room: hidden vectors to candidates."""
