"""`tfquiver.one_stream`: trainers that want the same batches share one pass over the data and one preprocessing.

Called by users, on a pipeline of theirs. `following` asks the node for one batch after the other, `maker` makes them
where nobody else does, `pipeline` makes any of them again. Never trusts that a batch is in the window: it is a cache.
"""
