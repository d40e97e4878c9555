"""`tfquiver status` and `tfquiver explain`: what a cluster, its jobs and its data sets do, and why, as tables and
JSON; what the store would have cost without the cache (`money`).

Called by people, through the command line, and by the demo. Asks and prints; never changes anything.
"""
