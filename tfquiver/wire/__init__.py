"""How processes talk: gRPC with its errors and retries, the frames of the reader socket, addresses.

Called by whoever has a connection. Says how a message travels, never what is done about it. (The frames that nodes
exchange are theirs alone: service/node/peers.)
"""
