"""`tfquiver sim`, `tfquiver plan` and `tfquiver trace`: a cluster's jobs run by the simulator; tables, JSON and
pictures of it; and what a running cluster's jobs read, recorded so that it can be simulated.

Called by people, through the command line. Asks a running cluster only what its jobs read; never changes one.
"""
