"""Which session a reader or a ticket provider has part in: found, adopted, gone on with, made; and who may leave one
before its end. Pure.

Called by `sessions`, with what its book knows. Never hands out a shard.
"""
