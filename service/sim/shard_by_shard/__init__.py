"""The coordinator's own rotations and samplers under simulated time, one data set before a simulated store: every shard
of every job is followed.

Called by `python -m tfquiver.service.sim.main`, tests and benchmarks. Pure; never has rules of its own, except the
baseline `lru`. Where there are many data sets, or weeks, `sim.flow` follows rates instead.
"""
