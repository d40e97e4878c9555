"""Weights of records that users gave: received in parts, kept on the disk; and which records of a shard a draw picks by
them, told to nodes, who know neither weights nor chances.

Called by the calls that bring weights, by `samplings`, and for nodes that ask. Never holds more of them in memory than
it was told to.
"""
