"""Carrying out what the coordinator wants cached here: what it means for this node's disk (`dataset_rules`,
`chunk_map`: pure), chunks evicted, chunks loaded ahead.

Called when new orders have come. Wanted state, not deltas: may be told again at any time. Never decides which chunks:
the coordinator's rotation does.
"""
