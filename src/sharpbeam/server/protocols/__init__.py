"""The protocols that clients speak: each turns its requests into those of the service, and answers in its own form."""
