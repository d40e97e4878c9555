"""How a node ends: what is under way is waited for, and what hangs is left behind.

Called when a node is told to stop. Never waits for longer than it was given.
"""
