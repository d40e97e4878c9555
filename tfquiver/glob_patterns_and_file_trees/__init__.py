"""Which names a glob means: by its rule, one way for all who ask (`globs`, pure), and those that are there on this
machine's file systems (`trees`; `files_under`, by the reader library, where they are many). A data set's files as a
tree (`tree`: names, directories, sizes and times; a function of the digest).

Called by `stores`, where a store's own library has no globs, by nodes that help with a scan, and by `mounting`. Never
asks an object store, and opens no file; what a user names is expanded by `listing`.
"""
