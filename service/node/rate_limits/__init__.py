"""How many bytes per second may pass: of reads from the store, chunks loaded ahead, shards that move. Pure.

Called by whoever has such a limit, with the time. The bucket never waits: it says how long to.
"""
