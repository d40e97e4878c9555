"""Shards on their way onto this node's disk, in threads of their own, with patience that ends: those that were fetched
(`inserts`), those that a scan or a pass over a compressed file comes by (`placed_here`). A disk that hangs stops no
reader and no scan. (What other nodes put here: `connections_between_nodes`.)

Called by `shards_from_disk_other_nodes_or_store` and `shards_put_at_their_owners`. Never decides what may stay
(`disk_quota_books_and_eviction`), and never waits on the loop.
"""
