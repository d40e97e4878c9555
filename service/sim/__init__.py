"""Clusters under simulated time, with the coordinator's own code: shard by shard, or as flows; what they are asked to
run, and what a cluster was seen to run (`workloads_and_recordings`).

Called by `tfquiver sim`, `tfquiver plan` and `tfquiver trace`, by tests and benchmarks. Never waits, and never asks a
cluster.
"""
