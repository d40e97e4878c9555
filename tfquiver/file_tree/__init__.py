"""A data set's files as a tree: names, directories, sizes and times.

Called by `mounting`. Pure: a function of the digest. Never opens, waits or asks.
"""
