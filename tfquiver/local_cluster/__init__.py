"""The servers of a whole cluster on one machine, in one cache directory: which they are, started, kept running,
stopped; where Prometheus finds their metrics; which of an `up` that was killed are gone (`left_out`).

Called by `cli.up_stop_logs_clear`. Says nothing to people and reads nothing of an `up` before: whom it tells and what
it is to start are arguments. Starts the servers as anybody would, by their commands, and knows nothing of shards,
sessions or TensorFlow; what it started never outlives it.
"""
