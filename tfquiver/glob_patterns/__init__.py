"""Which names a glob means: pure, and one way for all who ask.

Called by `stores`, where a store's own library has no globs, and by nodes that help with a scan. Never lists anything:
that is the stores', and what a user names is expanded by `listing`.
"""
