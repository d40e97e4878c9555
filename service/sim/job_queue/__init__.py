"""The jobs of a simulation: who runs, who waits for accelerators, who comes next.

Called by the simulation and by what policies are shown. Pure; never knows what a job reads from where.
"""
