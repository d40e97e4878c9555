"""What of each simulated data set is cached under a plan, and how much of it each job finds; shard by shard where the
one unused longest goes (`lru`).

Called by the simulation and by what policies are shown. Pure; never decides what is cached.
"""
