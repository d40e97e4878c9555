"""The shipping policy in a simulation: what it is shown, what is probed and measured for it, and what it says.

Called by the simulation. Pure: the policies are those of the coordinator, unchanged.
"""
