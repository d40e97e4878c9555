"""Batches that several trainers want alike: made once, kept in a bounded window, in memory and then on the disk; and a
trainer's connection, over which it follows them or makes them (`stream_shell`).

Called by the reader socket. `window` and `one_pass` decide (pure): what stays where, who is given what, who makes
more; `shares`: how much of it a user may have; `streams` carries out. Never reads a shard, and never makes a batch:
what is not here its trainer makes again.
"""
