"""The data sets that are cached by chunks: joins a layout, the board, a rotation and the sessions' samplers. Pure.

Called by `caching`, which is told of changes on the loop, and by the simulator. Never waits, and tells nobody: what it
has decided is read from it.
"""
