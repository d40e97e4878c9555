"""Digests, the tables of a data set's shards: their columns, files and ids; files as stores list them, and what those
are to us (`formats`).

Called by everybody, client, node and coordinator, which thereby agree without telling each other. Pure: never reads
the user's files or a store, never waits, never asks what time it is. (A digest is read and saved as one local file.)
"""
