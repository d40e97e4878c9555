"""`tfquiver dataset create`, `prefetch`, `pin`, `unpin`, `evict`, `refresh`: data sets that have names.

Called by `settings/dataset`, which has the commands that are about every data set. Never reads files: nodes do.
"""
