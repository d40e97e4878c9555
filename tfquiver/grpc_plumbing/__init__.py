"""How processes talk: gRPC with its errors and retries, addresses, lists in pages.

Called by whoever has a connection. Says how a message travels, never what is done about it. (Frames on Unix sockets:
tfquiver/socket_frames; those that nodes exchange are theirs alone: service/node/peers/frames_and_bodies.)
"""
