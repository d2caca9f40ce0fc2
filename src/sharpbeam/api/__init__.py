"""Classes that users import: Translator, Generator, Scorer and Head."""
