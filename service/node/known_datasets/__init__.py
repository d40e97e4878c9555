"""Data sets as this node knows them: found or scanned on first use, their digests kept; the sources of those that have
names.

Called by clients through the `servicer`, and by readers for a digest. Never decides how a data set is cached.
"""
