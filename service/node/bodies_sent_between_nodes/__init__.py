"""A shard's bytes between two nodes: sent; received, checked, in bounded memory; at a least pace; what others put here
on its way onto the disk (`incoming`).

Called by the asking and the serving end. Never decides who gets what; never believes a byte that has not been hashed.
"""
