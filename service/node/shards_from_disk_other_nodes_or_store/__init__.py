"""Where a shard comes from and where it goes: hot set, disk, owner, store, in that order; each fetched once, checked
(`disk_reads`: here, made ready for a reader in threads of its own; `fetcher`: from the store).

Called by readers, the data port and orders. The one room that knows all sources; never speaks a protocol itself.
"""
