"""The projections' room: hidden vectors to candidates."""
