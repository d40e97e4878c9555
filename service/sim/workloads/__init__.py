"""What the simulator is asked to run: a cluster, its data sets and the jobs that come; read from JSON with every field
checked, or drawn from a seed.

Called by `tfquiver sim`, `tfquiver plan` and `tfquiver trace`, by `jobs_as_flows`, tests and benchmarks. Pure: text and
a seed in, plain types and text out. Never runs anything, never opens a file, and never asks a cluster.
"""
