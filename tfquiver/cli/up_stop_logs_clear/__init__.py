"""`tfquiver up`, `stop`, `logs` and `clear`: what runs in a cache directory of this machine, and what it keeps.

Called by people, through the command line. The cluster itself is `tfquiver.local_cluster`'s; never imports TensorFlow.
"""
