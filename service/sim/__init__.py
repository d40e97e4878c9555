"""Clusters under simulated time, with the coordinator's own code: shard by shard, or as flows; what they are asked to
run (`workloads`), and what a cluster was seen to run (`recordings`).

Called by `tfquiver sim`, `tfquiver plan` and `tfquiver trace`, by tests and benchmarks. Never waits, and never asks a
cluster.
"""
