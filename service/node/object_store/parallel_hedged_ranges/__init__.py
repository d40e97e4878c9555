"""Misses of remote stores, in ranges: what is asked for together, how much at a time, and what is asked for twice.

Called by `object_store.fetcher`. Never reads by itself: that do the stores, in the threads of their origin.
"""
