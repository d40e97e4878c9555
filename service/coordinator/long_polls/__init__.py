"""Calls that wait on the coordinator's loop until there is something: readers for shards, nodes for orders, who watches
for anything that has changed.

Called by the coordinator and, with long polls, by its calls. Never decides: it wakes, and hands on what was decided.
"""
