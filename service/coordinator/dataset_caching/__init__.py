"""How each data set is cached: what a person or a policy has set, checked against the room there is; what of it is
resident; what nodes are told to load and evict of it; which sampler its sessions get; in how many chunks it is cut
(`chunk_counts`). Pure.

Called by the coordinator when a data set is read or set, when residency has changed, and with time. Which chunks come
and go is `chunk_rotation`'s. Never waits, never journals, never dials a node.
"""
