"""Which job misses on purpose, so that the benefit of caching is known, and what came of it and how sure that is
(`estimates`); done again when the store is another one (`store_change`). Pure.

Called by the coordinator, with what was measured (`measuring_jobs_and_stores`), and by the simulator; `probes` is all
of it on the real system. Says which job is to miss; never tells a node itself, never decides who gets cache
(`policies`). The clock is an argument.
"""
