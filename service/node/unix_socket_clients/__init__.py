"""The Unix socket of this machine's readers: who may connect, the frames and descriptors of a connection, and those who
are no readers: mounts, split providers, and trainers that say what has been delivered (`delivery_shell`).

Called by the op and by mounts. A connection that opens a session becomes a reader (`reader_sessions`), one of a trainer
may follow a stream (`shared_batches`). Never opens a store or an entry: shards come from
`shards_from_disk_other_nodes_or_store`.
"""
