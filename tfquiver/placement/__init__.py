"""Where a shard belongs: which node owns it (rendezvous hashing), which chunk it is striped into.

Called by everybody, client, node and coordinator, which thereby agree without telling each other. Pure: the hash of a
shard and the nodes in, or the lengths of all shards; never looks anything up.
"""
