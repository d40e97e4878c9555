"""What is cached on disk: one file a shard, named by its hash: written, found again; how much the file system still
has; and what a sick disk may do.

Called by `placing_at_owners_and_writing`, `shards_from_disk_other_nodes_or_store`, `connections_between_nodes` and
`coordinator_orders`, from threads: never from the event loop where it may wait. What stands under a hash has that hash
(I-3), and the quota holds at every moment (I-4). Never opens a connection.
"""
