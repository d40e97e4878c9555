"""The cache of one machine: keeps shards by their hash, gets each missing one once, passes descriptors to readers.

Called by the op over the Unix socket (`readers`), by other nodes (`peers`), by clients over gRPC (`servicer`). Here the
rooms are wired together; and what is the whole node's: its cache directory, its addresses, which users it lets in.
Never imports TensorFlow, and never decides who reads what: the coordinator does.
"""
