"""What all server processes have in common: command line, closed streams, signals, the ready line, garbage; starts that
take long, and the end of what does not end; who makes room where all places for callers are taken, threads that do one
thing again and again.

Called by the `main` of each server and where servers answer, by the command line (its dashboard), by the demo, and by
the object store that demo and tests have for their own. Never knows what a server is for.
"""
