"""`tfquiver demo`: three trials over one cache, and the same three without it.

Called by the command line. Starts the ordinary servers as processes; nothing may depend on it.
"""
