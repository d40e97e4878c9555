"""`tfquiver.materialize` and what is below it: what a function is known by, what it makes of a shard, who makes which,
how its files are called (`derived_uris`).

Called by the user, in whose process it runs, through the name at `tfquiver` (`materialize`); the rest by that, by parts
of the client, and by servers that tell by its URI what is derived. Imports TensorFlow only inside functions that are
given the user's. Never decides what others may read: the coordinator does, and never keeps bytes: nodes do.
"""
