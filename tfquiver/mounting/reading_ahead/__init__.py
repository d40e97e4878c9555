"""What is fetched ahead of a mount's readers, how much of it at a time, and how much the kernel asks for ahead of them.

Called by the mount's operations and its process. Never fetches anything itself: it says what, and when.
"""
