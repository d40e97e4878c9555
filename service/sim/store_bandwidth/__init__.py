"""What a store's bandwidth is to simulated jobs: who gets how much of it, and how fast each reads then.

Called by the simulation. Pure: columns in, columns out; never knows a policy.
"""
