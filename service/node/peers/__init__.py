"""Other nodes, both ways: the data port that serves them, the connections that ask them, what is placed at an owner.

Called by other nodes, and by `shards` for what another owns. Never believes a byte that came: it is hashed before
anybody reads it.
"""
