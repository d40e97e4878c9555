"""The tables and sentences of `tfquiver status`, and what their words mean.

Called by `showing`, and by other commands and the dashboard that show the same. Never asks a server.
"""
