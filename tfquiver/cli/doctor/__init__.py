"""`tfquiver doctor`: what may be wrong with a machine, a cache directory, a cluster or a store, each with what to do.

Called by the command line. Looks, and writes nothing but one file in the cache directory, which it deletes again; never
mends anything.
"""
