"""What every node is told of the data sets that have names: which digests it is to have at hand, what it is to do now,
and which of that is other than when it last asked.

Called by `named_keeping` when states have changed, and by `long_polls` for each node's orders. Never changes a state.
"""
