"""Many data sets and jobs (`workloads_and_recordings`) as flows of bytes: what the shipping policies and schedulers
would do with a cluster (`simulation`); who runs and who waits for accelerators (`jobs`, `lines`); how fast each job
reads (`rates`), how far each was (`trail`); who gets how much of the store's bandwidth, in turns or at once.

Called by `tfquiver sim`, tests and benchmarks. Pure: time is the engine's, randomness a seed. Where
`sim.shard_by_shard` follows every shard through the coordinator's rotation, this follows rates and shares: weeks of
hundreds of jobs in seconds. It never knows a policy by name, and has no constant that was fitted to a measurement.
"""
