"""The commit log: what was decided, on disk before anybody is told; and its compaction.

Called by the coordinator. Knows records as bytes: never what they mean.
"""
