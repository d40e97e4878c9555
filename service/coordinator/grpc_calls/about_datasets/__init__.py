"""The calls on data sets: registered, shared, derived, those that have names, and where they are kept.

Called by nodes, clients and the command line, through the servicer. What somebody may not read is not there for them
(`registering_sharing_removing_datasets.visible`, which other calls ask, too); never decides anything.
"""
