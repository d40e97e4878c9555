"""How a node ends: what is under way is waited for. (What hangs is left behind: `common_to_servers/last_resort`.)

Called when a node is told to stop. Never waits for longer than it was given.
"""
