"""Other nodes, as this one asks them: connections, lanes, whose answers can be trusted to come. What they ask is in
`serving`; the bytes that travel, both ways, are in `wire`.

Called by `shard_fetching` for what another owns, and by `shard_placement` for what belongs there. Never believes a
byte that came: it is hashed before anybody reads it.
"""
