"""How many bytes per second may pass: of reads from the store, chunks loaded ahead, shards that move. What limits is
pure (`token_bucket`); through `metered_store` passes every byte that leaves a store, counted.

Called by whoever has such a limit, with the time. The bucket never waits: it says how long to.
"""
