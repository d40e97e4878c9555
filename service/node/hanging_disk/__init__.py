"""A disk that does not answer: who waits for it and since when, and threads of their own for what may wait for it, so
that nothing else of the node stands still.

Called by `disk`, and by whoever keeps something in the cache directory. Never decides what is kept.
"""
