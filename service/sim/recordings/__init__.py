"""What a running cluster was seen to read, poll by poll, as a scenario that can be simulated; how much its store
had (`store_rate`).

Called by `tfquiver trace record` and `tfquiver plan`, which ask the cluster. Pure: what was told in, plain types out.
Never believes what it is told: nothing of it makes a scenario that cannot be read again.
"""
