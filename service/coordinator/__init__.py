"""Who reads which shard of which epoch; which node has a shard, or should; which chunks come and go.

Called by nodes, clients and the command line over gRPC (`grpc_calls`; `server` listens). What decides is in the pure
rooms; here it is joined, on one event loop: decide, journal, perform. Never touches records or an object store, and
never dials anybody.
"""
