"""A reader of this machine and its session: leases in, shards out, acknowledgements; and the frames of its connection.

Called by the reader socket. `reader_session` decides (pure), `reader_shell` carries out. Never opens a store or an
entry: shards come from `shards`, leases from the coordinator.
"""
