"""`tfquiver.materialize` and what is below it: what a function is known by, what it makes of a shard, who makes which.

Called by the user, in whose process it runs, through the name at `tfquiver` (`materialize`); the rest by that, and by
parts of the client. Imports TensorFlow only inside functions that are given the user's. Never decides what others may
read: the coordinator does, and never keeps bytes: nodes do.
"""
