"""Other nodes: this one asks them (connections and their sockets, lanes, whose answers can be trusted to come, how each
proves that it holds the same token), and serves them at its data port: who connects, what they are answered. The frames
of that port (`data_frames`), and how they are received; the shards' bytes: `bodies_sent_between_nodes`.

Called by `shards_from_disk_other_nodes_or_store` for what another owns, by `placing_at_owners_and_writing` for what
belongs there, and by the loop when a peer connects. Never believes a byte that came: it is hashed before anybody reads
it.
"""
