"""`tfquiver mount`: a data set's files as a read-only file system, in a process of its own beside the node.

Called by the command line. Asks the node of this machine for each shard and reads it from the descriptor that comes;
what it serves is checked, or is EIO. Needs the extra `fuse` (pyfuse3, trio), which only the modules that say so import.
Never runs in a node's process, never reads an object store, never imports TensorFlow.
"""
