"""What data are, once cut: shards and digests; functions of bytes that are already here.

Called by everybody, client, node and coordinator, which thereby agree without telling each other. Pure: never reads the
user's files or a store, never waits, never asks what time it is. (A digest is read and saved as one local file.)
"""
