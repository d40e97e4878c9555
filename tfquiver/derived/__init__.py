"""`tfquiver.materialize` below its surface: what a function is known by, what it makes of a shard, who makes which.

Called by `tfquiver.client.materialize`, in the user's process. Imports TensorFlow only inside functions that are given
the user's. Never decides what others may read: the coordinator does, and never keeps bytes: nodes do.
"""
