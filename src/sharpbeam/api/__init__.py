"""What users import: Translator, Generator, Scorer and Head."""
