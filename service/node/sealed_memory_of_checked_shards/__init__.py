"""Shards in memory: sealed, checked against their hash, ready to be handed out; the hot set of them; how many bytes of
bodies may be on their way at one time.

Called by all who have a shard's bytes in hand. Never knows where they came from or where they go.
"""
