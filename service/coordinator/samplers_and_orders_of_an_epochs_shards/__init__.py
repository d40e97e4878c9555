"""Which shard comes next in a session: at random among what is resident, by chunks, or in a fixed order; what a client
asks of it (`wish`); and the orders that sessions share. Pure.

Called by sessions, the cache and the simulator. Randomness is an argument. Never decides what is cached.
"""
