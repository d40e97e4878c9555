"""The cache of one machine: keeps shards by their hash, gets each missing one once, passes descriptors to readers.

Called by the op over the Unix socket (`unix_socket_clients`), by other nodes (`connections_between_nodes`), by clients
over gRPC (`grpc_calls_warm_clear`). Here the rooms are wired together; and what is the whole node's: its options, its
addresses, who may call it. Never imports TensorFlow, and never decides who reads what: the coordinator does.
"""
