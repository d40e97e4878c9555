"""First use of a data set: found by its listing, or scanned once and registered, however many ask (`first_use`), and of
all nodes by one (`elsewhere`). In a scan its files are cut and hashed, and the shards kept at their owners on the way
(`scan`); a large one is by several nodes (`shared_scans`): the node whose task it is hands out files, others cut them
and give back their tables. What a name's source is, is looked at first (`named_sources`).

Called by clients and by other nodes through the `servicer`. Never fails a scan because of another node: what that does
not bring the node whose task it is scans itself.
"""
