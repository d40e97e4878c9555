"""Reading the user's files: listing, streaming, cutting, hashing, and building or verifying a digest of them.

Called by clients, to list; by nodes, on the first use of a data set and for a miss within a compressed file; by
`tfquiver digest`. Knows stores by their interface only. Never talks to a node or the coordinator, and never decides
what is cached.
"""
