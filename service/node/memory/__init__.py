"""Shards in memory: sealed, checked against their hash, ready to be handed out; and the hot set of them.

Called by all who have a shard's bytes in hand. Never knows where they came from or where they go.
"""
