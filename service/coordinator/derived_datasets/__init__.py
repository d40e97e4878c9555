"""Derived data sets while they are made: which rows are whole, who computes which others, how often they are used.
Pure, but for `deriving`, which has them on the loop: builds opened and claimed from, rows reported, the whole
registered.

Called by the coordinator. Never reads a digest, and the pure part never registers a data set, nor asks what time it
is.
"""
