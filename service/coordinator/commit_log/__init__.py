"""The commit log: what was decided, on disk before anybody is told; and its compaction. While it cannot be written the
newest notes of nodes and dispatchers wait in memory (`latest_notes`).

Called by the coordinator. Knows records as bytes, but for those notes: never what they mean.
"""
