"""Which shards are resident and where, who owns those that are not, and how much room there is for each data set. Pure.

Called by `caching`, which is told of changes on the loop, and by the simulator. Never decides what comes or goes.
"""
