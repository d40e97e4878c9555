"""Other nodes, both ways: the name under which they reach this one, the data port that serves them, and the connections
that ask them.

Called by other nodes, and by `shards` for what another owns. Never believes a byte that came: it is hashed before
anybody reads it.
"""
