"""Other engines by one interface, and writers of model files that they read."""
