"""Other nodes, as this one asks them: connections, lanes, whose answers can be trusted to come. What they ask is in
`serving`; the bytes that travel, both ways, are in `bodies`.

Called by `shards` for what another owns, and by `placing` for what belongs there. Never believes a byte that came: it
is hashed before anybody reads it.
"""
