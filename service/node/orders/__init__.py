"""Carrying out what the coordinator wants cached here: rules given to the disk, chunks evicted, chunks loaded ahead.

Called when new orders have come. Wanted state, not deltas: may be told again at any time. Never decides which chunks:
the coordinator's rotation does.
"""
