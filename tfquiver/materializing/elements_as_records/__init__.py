"""Elements as records, and out of them again: how an element lies in bytes (`element_layout`), which records make a
shard (`shard_cut`).

Called by `materialize` and by those who compute for others. Never runs the user's function.
"""
