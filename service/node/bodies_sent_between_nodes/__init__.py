"""Frames of the data port, and a shard's bytes between two nodes: sent; received, checked, in bounded memory; at a
least pace.

Called by the asking and the serving end. Never decides who gets what; never believes a byte that has not been hashed.
"""
