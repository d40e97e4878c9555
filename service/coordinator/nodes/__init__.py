"""Which nodes live, and what each has said that it holds. Pure.

Called by the coordinator with every heartbeat, and by the cache. Believes what nodes report and nothing else; never
decides what they should hold.
"""
