"""Other nodes, as this one asks them: connections and their sockets, lanes, whose answers can be trusted to come, and
how each proves that it holds the same token. What they ask is in `serving`; what travels, both ways, is in
`frames_and_bodies`.

Called by `shards_from_disk_peers_or_store` for what another owns, and by `shards_put_at_their_owners` for what belongs
there. Never believes a byte that came: it is hashed before anybody reads it.
"""
