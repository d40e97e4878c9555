"""What `tfquiver status` prints (`status_view`): its problems and warnings, what was saved and would have cost
(`money`), its tables, and what their words mean.

Called by `status_asked_watched_explained`, and by other commands and the dashboard that show the same. Never asks a
server.
"""
