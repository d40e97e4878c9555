"""What a node counts: what it has given out and saved, since it began and in its directory ever; what it could not
keep (`refusals`); and all of it as Prometheus reads it (`node_metrics`, pure).

Called by whoever serves shards, and by status and metrics. Never decides anything by what it counts.
"""
