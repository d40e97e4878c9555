"""The single tables and sentences of `tfquiver status`, and what their words mean.

Called by `status_and_explain`, and by other commands and the dashboard that show the same. Never asks a server.
"""
