"""The coordinator's own rotations and samplers under simulated time, one data set before a simulated store: every shard
of every job is followed. The clock that jumps (`engine`) is also that of `job_queue_rates_store_bandwidth`.

Called by `python -m tfquiver.service.sim.shard_by_shard`, tests and benchmarks. Pure but for that command; never has
rules of its own (the baseline is in `cache_contents`). Where there are many data sets, or weeks,
`job_queue_rates_store_bandwidth` follows rates instead.
"""
