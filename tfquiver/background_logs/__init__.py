"""The logs of what runs in the background for people, servers and mounts: a file that is appended to, put aside when it
is long, at the start and by the process that writes it (`kept_short`), and whose last lines are shown where something
does not start.

Called by whoever starts one (`node_daemon_and_cache_directory`, `local_cluster`, `tfquiver mount`) and by what is
started. Never follows a link, and never knows what the lines say.
"""
