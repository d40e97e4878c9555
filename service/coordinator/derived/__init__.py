"""Derived data sets while they are made: which rows are whole, who computes which others, how often they are used.

Called by `deriving`, which lives on the loop. Pure: never reads a digest or registers a data set, never asks what time
it is.
"""
