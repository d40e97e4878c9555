"""Which file system a path of this machine is on, without waiting for one that hangs.

Called by `local` and by nodes, which keep what hangs apart. Reads symbolic links and what the kernel says of its
mounts; never a file.
"""
