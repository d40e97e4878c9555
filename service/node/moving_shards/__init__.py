"""Data sets that have a placement: where this node finds the owners of their shards, what it takes over from other
nodes because it owns it now, and what it gives up because others do.

Called when orders say so. Wanted state, not deltas; nothing is remembered over a restart. Never reads the store, and
never gives up what its owners do not hold.
"""
