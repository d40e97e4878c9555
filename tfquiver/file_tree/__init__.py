"""A data set's files as a tree: names, sizes and times; which shards a read needs, and which ones the next reads will.

Called by `mounting`. Pure: a function of the digest and of what was read. Never opens, waits or asks.
"""
