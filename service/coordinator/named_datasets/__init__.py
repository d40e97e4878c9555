"""Data sets that have names, and lives apart from the jobs that read them: what a person asked for, how far it is, what
nodes and the catalogue are to do next.

Called by the coordinator (`datasets/named_keeping.py`), which journals, and carries out. Events and state in, the next
state and orders out; never waits, reads, or deletes anything itself. Pure.
"""
