"""Reading the user's files: streaming, records framed, cut and hashed, and a digest of them built or verified.

Called by nodes, on the first use of a data set and for a miss within a compressed file; by `tfquiver digest`.
`cutting` and `tfrecord` are pure. Knows stores by their interface only. Never talks to a node or the coordinator, and
never decides what is cached.
"""
