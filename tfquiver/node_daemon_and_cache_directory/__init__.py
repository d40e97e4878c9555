"""The daemon of a cache directory, as others reach it: found or started, its socket kept; the directory's lock and who
its node is (`directory`).

Called by the node, by those who start servers there, by clients, the dispatcher and the worker, and by the command
line. Never imports TensorFlow, never asks a server more than whether it is there, and knows nothing of shards, nor of
what an entry holds.
"""
