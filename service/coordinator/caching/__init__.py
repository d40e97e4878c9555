"""How data sets are cached, on the coordinator's loop: what sessions see of it, and what nodes are told to do.

Called by the coordinator when a data set is read or set, when residency has changed, and with time; orders by nodes,
which wait for them. What decides is in `rotation` and `order`; never journals, and never dials a node.
"""
