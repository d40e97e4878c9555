"""The object store, as a node reads it: places, passes over files, ranges (neighbours in one request, late ones asked
for twice, as many at a time as the store has use for), with deadlines and its clients' credentials.

Called by `shards_from_disk_other_nodes_or_store` for what nobody has, and by `dataset_scans`. Never caches. Single
shards are checked in `shards_from_disk_other_nodes_or_store`, those of passes here.
"""
