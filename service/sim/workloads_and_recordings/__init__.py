"""What the simulator is asked to run: a cluster, its data sets and the jobs that come; read from JSON with every field
checked, drawn from a seed, or what a running cluster was seen to read, poll by poll (`recording`), and how much its
store had (`store_rate`).

Called by `tfquiver sim`, `tfquiver plan` and `tfquiver trace`, which ask the cluster, by
`job_queue_rates_store_bandwidth`, tests and benchmarks. Pure: text, a seed, and what was told in; plain types and text
out. Never runs anything, never opens a file, and never believes what it is told: nothing of it makes a scenario that
cannot be read again.
"""
