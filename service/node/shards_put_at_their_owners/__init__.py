"""Where a shard belongs, and how what came by gets there: this node's disk, its owner's, or another's with room.

Called by scans, fetches and moves. What owners are is as the coordinator last told (`known_places`), and as the nodes
that live make it. Never reads the store, and never waits on the loop.
"""
