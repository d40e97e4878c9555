"""What a store's bandwidth is to simulated jobs: who gets how much of it, in turns or at once.

Called by the simulation. Pure: columns in, columns out; never knows a policy.
"""
