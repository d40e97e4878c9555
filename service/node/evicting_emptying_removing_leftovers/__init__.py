"""What goes from this node otherwise than for its quota: shards let go on the disk and in memory, whoever has them
under way (`letting_go`, `given_up`); data sets that were removed, or emptied while this node was away or others were at
it; what scans left that came to nothing.

Called by `shards_from_disk_other_nodes_or_store`, `connections_between_nodes`, orders and time; the coordinator says
what is whose. Never decides what is evicted, never takes from a reader what it holds, nor bytes that a data set names
which is there.
"""
