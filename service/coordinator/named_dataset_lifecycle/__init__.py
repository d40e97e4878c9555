"""Data sets that have names, and lives apart from the jobs that read them: what a person asked for, how far it is, what
nodes and the catalogue are to do next. Events and state in, the next state and orders out: pure. On the loop are
`named_requests`, which checks and journals what is asked for, and `named_keeping`, which carries out what follows from
it; and `troubles_over`, which sees when what stood in nodes' way is over.

Called by the coordinator. The pure part never waits, reads, or deletes anything itself.
"""
