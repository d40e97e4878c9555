"""The object store, as a node reads it: places, ranges, passes over files, with deadlines and its clients' credentials.

Called by `shard_fetching` for what nobody has, and by `dataset_scans`. Never caches. Single
shards are checked in `shard_fetching`, those of passes here.
"""
