"""The shipping policy in a simulation: what it is shown, what is probed and measured for it, and what it says.

Called by the simulation. Pure; never changes what the policies of the coordinator say.
"""
