"""One data set's first scan by several nodes: the node whose task it is hands out files, others cut them and give back
their tables.

Called by `datasets` for a task that has come, and by other nodes through the `servicer`. Never registers anything, and
never fails a scan because of another node: what that does not bring the node whose task it is scans itself.
"""
