"""`tfquiver up`, `stop`, `logs` and `clear`: what runs in a cache directory of this machine, what it keeps,
what an `up` takes from the last one there, and what people are told.

Called by people, through the command line. The servers are `tfquiver.local_cluster`'s; never imports TensorFlow.
"""
