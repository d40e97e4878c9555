"""Derived shards on a node: taken from the trainers that have computed them, and asked of them, or of nodes that have
some, when they are missing.

Called by `object_store`, in whose place they stand for data that no store has, and by `grpc_calls_warm_clear`. Never
runs a user's function, and never believes what a trainer says it made: a shard is what has the hash.
"""
