"""The commit log: what was decided, on disk before anybody is told; and its compaction. While it cannot be written,
`latest_notes` has the last note of each node and dispatcher (pure).

Called by the coordinator. The log knows records as bytes: never what they mean.
"""
