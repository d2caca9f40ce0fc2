"""Who sits in which row: requests -> batches, and when each is decoded."""
