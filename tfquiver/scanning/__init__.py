"""Reading the user's files: streaming, records framed, cut and hashed, and a digest of them built or verified.

Called by nodes, on the first use of a data set and for a miss within a compressed file; by
`tfquiver digest`. `cutting`, `listing_terms` and `tfrecord` are pure, and for everybody: so the coordinator, too, knows
a listing by its key. Knows stores by their interface only. Never talks to a node or the coordinator, and never decides
what is cached.
"""
