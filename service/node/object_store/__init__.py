"""The object store, as a node reads it: the miss path, with limits, deadlines, counting and its clients' credentials.

Called by `shard_fetching` for what nobody has, and by `dataset_scans`. Every byte that leaves a store passes here,
counted; never returns bytes that are not what the digest says, and never caches.
"""
