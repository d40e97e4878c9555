"""Data sets as this node knows them: found or scanned on first use, their digests kept, the chunks that they are cut
into, what was removed let go.

Called by clients through the `servicer`, and by readers for a digest. Never decides how a data set is cached.
"""
