"""`tfquiver demo`: three trials over one cache, and the same three without it."""
