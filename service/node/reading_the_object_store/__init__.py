"""The object store, as a node reads it: places, ranges (neighbours in one request, late ones asked for twice, as many
at a time as the store has use for), with deadlines and its clients' credentials; every byte that leaves it is counted,
and limited (`metered_store`).

Called by `shards_from_disk_other_nodes_or_store` for what nobody has, and by `dataset_scans`. Never caches. What comes
is checked in `shards_from_disk_other_nodes_or_store`.
"""
