"""What a node counts of what it has given out and saved: since it began, and in its directory ever.

Called by whoever serves shards, and by status and metrics. Never decides anything by what it counts.
"""
