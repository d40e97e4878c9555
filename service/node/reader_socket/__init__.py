"""The socket of this machine's readers: who may connect, and those who are no readers: mounts, split providers,
deliveries, followers of a stream.

Called by the op and by mounts. A connection that opens a session becomes a reader (`readers`). Never opens a store or
an entry: shards come from `shards`.
"""
