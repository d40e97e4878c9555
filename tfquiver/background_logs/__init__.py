"""The logs of what runs in the background for people, servers and mounts: a file that is appended to, begun anew when
it is long, and whose last lines are shown where something does not start.

Called by whoever starts one: `node_daemon`, `local_cluster`, `tfquiver mount`. Never follows a link, and never knows
what the lines say.
"""
