"""Tables of the clustered vocabulary projection paper."""
