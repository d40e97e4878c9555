"""The node's gRPC service (`servicer`), and what a person asks of one node through it: `tfquiver warm` and `clear`.

Called by clients and by the command line. Never decides what is kept here.
"""
