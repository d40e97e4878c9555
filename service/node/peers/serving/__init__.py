"""The data port: what this node answers to other nodes, the bodies it sends them, and what it takes from them.

Called by the loop when a peer connects. Never asks a peer itself: an answer comes from `shard_fetching`.
"""
