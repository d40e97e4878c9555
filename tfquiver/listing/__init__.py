"""From what a user names (globs, paths, URIs, directories) to the files that are meant, in their one order; and the
key by which a listing is known again, from its files and how they are cut (`listing_terms`: pure, and for everybody:
so the coordinator, too, knows a listing by its key).

Called by who registers, scans and mounts. Lists, and never reads what is in a file.
"""
