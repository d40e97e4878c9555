"""Data sets as this node knows them: their digests kept; which have names, as the coordinator tells it; and which
shards each of them names, so that what another names stays (`other_digests`).

Called by `dataset_scans`, by readers for a digest, and by `coordinator_orders` with the list of names. Never decides
how a data set is cached.
"""
