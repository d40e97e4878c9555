"""The reader socket: the op's readers, ticket providers and deliveries of this machine, each with its session.

Called by the op. `reader_session` decides (pure), the shells carry out. Never opens a store or an entry: shards come
from `shards`, leases from the coordinator.
"""
