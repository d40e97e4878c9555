"""Which names a glob means: by its rule, one way for all who ask (`globs`, pure), and those that are there on this
machine's file systems (`trees`; `files_under`, by the reader library, where they are many).

Called by `stores`, where a store's own library has no globs, and by nodes that help with a scan. Never asks an object
store, and opens no file; what a user names is expanded by `listing`.
"""
