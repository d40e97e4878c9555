"""What this node holds of shards is let go, on the disk and in memory, whoever has it under way: evicted where the
rules keep it no more, deleted though they do; and which of a data set's shards other digests here name, too
(`other_digests`), so that they stay.

Called by `shards_from_disk_peers_or_store`, for `coordinator_orders`, `moving_shards`, `removed_and_leftover_data` and
`clear`, which say what goes. Never decides what goes, and never takes from a reader what it holds.
"""
