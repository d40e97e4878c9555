"""The object store, as a node reads it: the miss path, with deadlines and its clients' credentials.

Called by `shard_fetching` for what nobody has, and by `dataset_scans`. Never returns bytes that are not what the digest
says, and never caches.
"""
