"""The daemon of a cache directory, as others reach it: found or started, its socket kept; and which run on this
machine. And the files of a cache directory beside its entries: its lock and who its node is (`directory`), where that
is reached (`node_endpoint`), which cluster's node it is (`cluster_file`), which servers `tfquiver up` has started
(`up_file`).

Called by the node, by those who start servers there, by clients, the dispatcher and the worker, and by the command
line. Never imports TensorFlow, never asks a server more than whether it is there, and knows nothing of shards, nor of
what an entry holds.
"""
