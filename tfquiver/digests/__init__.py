"""Digests, the tables of a data set's shards: their columns, files and ids; and what belongs to them: files as stores
list them, what a shard takes on a disk.

Called by everybody, client, node and coordinator, which thereby agree without telling each other. Pure: never reads
the user's files or a store, never waits, never asks what time it is. (A digest is read and saved as one local file.)
"""
