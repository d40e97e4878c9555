"""What is measured of jobs, by what their readers and training processes report, and of the object store, by what nodes
do. Pure.

Called with what heartbeats and calls bring; asked by `probing`, by plans, by listings, and by the simulator. Never asks
anybody, never decides; what cannot be is not counted. The clock is an argument.
"""
