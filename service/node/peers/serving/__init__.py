"""The data port: who connects, what this node answers to other nodes, and what it takes from them.

Called by the loop when a peer connects. Never asks a peer itself: an answer comes from
`shards_from_disk_peers_or_store`.
"""
