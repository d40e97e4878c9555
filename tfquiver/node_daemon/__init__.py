"""The daemon of a cache directory, as others reach it: found or started, its socket kept; and which run on
this machine.

Called by clients, and by the dispatcher and the worker. Never imports TensorFlow, knows nothing of shards, and never
writes into a cache directory but what starts a daemon there.
"""
