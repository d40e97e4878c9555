"""`tfquiver status` and `tfquiver explain`: a cluster asked what it, its jobs and its data sets do, and why, once or
again and again; a directory without a node looked at; what follows from all that was said (`sums`), and what goes on
(`activity`). How it is printed: `status_tables_and_warnings`.

Called by people, through the command line, and by the demo. Asks and prints; never changes anything.
"""
