"""The node of this machine, as others reach it: the daemon of a cache directory found or started, and its socket kept.

Called by clients, and by the dispatcher and the worker. Never imports TensorFlow, knows nothing of shards, and never
writes into a cache directory but what starts a daemon there.
"""
