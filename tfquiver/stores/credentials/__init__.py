"""How a store is reached: credentials and endpoints as this machine's own tools would find them, so that a node may
use a client's.

Called by clients, which hand them over (`resolved`), and by the stores. Finds and renews, never asks a person and never
writes anything down.
"""
