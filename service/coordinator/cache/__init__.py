"""What is cached and what should be: what is resident and where, how each data set is to be cached, its chunks. Pure.

Called by `caching`, which is told of changes on the loop, and by the simulator. Never waits, and tells nobody: what it
has decided is read from it.
"""
