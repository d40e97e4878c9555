"""What a shard takes on a node's disk.

Called by nodes, which account for it, and by the coordinator, which plans with it: both count the same. Never looks
at a disk.
"""
