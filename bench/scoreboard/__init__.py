"""The scoreboard: what each part of the project promised, and whether it holds. One file for each part."""
