"""A reader of this machine and its session: leases in, shards out, acknowledgements.

Called by the reader socket. `reader_session` decides (pure), `reader_shell` carries out. Never opens a store or an
entry: shards come from `shards_from_disk_other_nodes_or_store`, leases from the coordinator.
"""
