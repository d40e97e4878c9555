"""What a store's bandwidth is to simulated jobs: who gets how much of it, and how fast each reads then; and
how much a recorded cluster had.

Called by the simulation and by what is recorded. Pure: columns in, columns out; never knows a policy.
"""
