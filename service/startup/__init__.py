"""How each server starts and stops: command line, log, signals, the ready line, the node that it has for a child.

Called by the `main` of each server, by the demo, and by the object store that demo and tests have for their own. Never
knows what a server is for.
"""
