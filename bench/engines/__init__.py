"""Other engines behind one interface, and writers of model files that they read."""
