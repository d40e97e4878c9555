"""Clusters under simulated time, with the coordinator's own code: shard by shard, or as flows; and what they are asked
to run (`workloads`).

Called by `tfquiver sim`, `tfquiver plan`, `python -m tfquiver.service.sim.main`, tests and benchmarks. Pure but for
`main`; here only what both share, the clock that jumps (`engine`). Never waits, and never asks a cluster.
"""
