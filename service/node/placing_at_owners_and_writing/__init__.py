"""Where a shard belongs, and how what came by gets there: this node's disk, its owner's, or another's with room. What
owners are is as the coordinator last told (`known_places`), and as the nodes that live make it. What goes onto the disk
here is written in threads of their own, with patience that ends: what was fetched (`inserts`), what a scan or a pass
over a compressed file comes by (`placed_here`); a disk that hangs stops no reader and no scan. (What other nodes put
here: `connections_between_nodes`.)

Called by scans, fetches and moves. Never reads the store, never decides what may stay
(`disk_quota_books_and_eviction`), and never waits on the loop.
"""
