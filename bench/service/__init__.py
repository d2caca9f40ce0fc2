"""The service as people use it: load, documents, guards, a cluster, other processors, the first five minutes."""
