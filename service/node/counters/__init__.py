"""What a node counts: what it has given out and saved, since it began and in its directory ever; what it could not keep
(`refusals`); how long reads of the store took (`read_times`, pure).

Called by whoever serves shards, and by status and metrics. Never decides anything by what it counts.
"""
