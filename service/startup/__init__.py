"""How each server starts and stops: command line, log, signals, the ready line, the node that it has for a child.

Called by the `main` of each server, and by the demo. Never knows what a server is for.
"""
