"""Bytes that one process writes and another reads, as values and payloads: the protocols on the Unix sockets of one
machine (`..._frames`: of readers, mounts and streams), draws of sampled epochs (`drawn_shards`), which records they
pick (`record_picks`), weights of records (`record_weights`).

Called by both ends, client, node and coordinator, which thereby agree without telling each other. Pure: never opens a
socket, and bounds what it takes before it allocates; only `frames_received` has descriptors, those that came with a
frame, and closes what nobody may have.
"""
