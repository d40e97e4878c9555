"""`tfquiver dashboard`: a page that shows a cluster while it changes, served by the command itself.

Called by the command line. Reads from the coordinator with the caller's token, as `tfquiver status` does, and only
shows: nothing that a browser sends ever changes anything. The page itself is built from `web/` (decision 0054).
"""
