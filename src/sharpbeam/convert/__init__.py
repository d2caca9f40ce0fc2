"""Models of other programs -> model folders of ours, and back. What is read is data only: no code of a file is run."""
