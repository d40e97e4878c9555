"""What lives on the coordinator's loop for those who wait: readers for shards, nodes for orders, sessions for what a
thread makes for them.

Called by the coordinator and, with long polls, by its calls. Never decides: it wakes, and hands on what was decided.
"""
