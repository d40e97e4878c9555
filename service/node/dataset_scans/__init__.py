"""First use of a data set: its files are cut and hashed, and the shards kept at their owners on the way (`scan`); a
large one by several nodes (`shared_scans`): the node whose task it is hands out files, others cut them and give back
their tables. What a name's source is, is looked at first (`named_sources`).

Called by `known_datasets`, and by other nodes through the `servicer`. Never registers anything, and never fails a scan
because of another node: what that does not bring the node whose task it is scans itself.
"""
