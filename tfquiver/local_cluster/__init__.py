"""A whole cluster on one machine, in one cache directory: started, kept running, stopped, cleared.

Called by the command line. Starts the servers as anybody would, by their commands, and knows nothing of shards,
sessions or TensorFlow; what it started never outlives it.
"""
