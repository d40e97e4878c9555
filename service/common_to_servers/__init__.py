"""What all server processes have in common: command line, log lines, signals, the ready line, collections of garbage,
how late the event loop is.

Called by the `main` of each server, by the demo, and by the object store that demo and tests have for their own. Never
knows what a server is for.
"""
