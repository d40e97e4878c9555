"""Where a shard belongs: on which nodes a data set is kept (labels, selectors, placement rules), which of them own a
shard (rendezvous hashing), which chunk it is striped into. And hashes as numbers (`prefixes`), sorted numbers of
millions of shards: what is sorted, looked up and counted in columns.

Called by everybody, client, node and coordinator, which thereby agree without telling each other. Pure: the hash of a
shard and the nodes in, or the lengths of all shards; never looks anything up.
"""
