"""A user's function: traced once (`function`), and known by a fingerprint that is the same in every process that traces
the same.

Called by `tfquiver.materializing.materialize` and by what makes shards with it. Imports TensorFlow only inside
functions. Never runs a function to find out what it is.
"""
