"""From what a user names (globs, paths, URIs, directories) to the files that are meant, in their one order.

Called by who registers, scans and mounts. Lists, and never reads what is in a file.
"""
