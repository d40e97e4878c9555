"""What stores are asked for when files are found by a pattern: a page at a time, each with a time and tries of its own,
and no more pages than a listing may have.

Called by the stores. Never expands what a user wrote (`tfquiver.listing` does), and never reads what is in a file.
"""
