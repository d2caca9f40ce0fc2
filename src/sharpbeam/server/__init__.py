"""The server: translation over HTTP, many requests in one session of each model."""
