"""Which file system a path of this machine is on, without waiting for one that hangs; and calls of one, or of anything
without a limit of time, that are given up.

Called by the stores and by nodes, which keep what hangs apart. Reads symbolic links and what the kernel says of its
mounts; never a file.
"""
