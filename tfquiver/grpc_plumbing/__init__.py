"""How processes talk: gRPC with its errors and retries, addresses, lists in pages, bundles, health asked and answered.
And gRPC by hand (`unary_call`), for threads of a training that may fork.

Called by whoever has a connection. Says how a message travels, never what is done about it. (Frames on Unix sockets:
tfquiver/messages_and_binary_formats; those that nodes exchange are theirs alone:
service/node/connections_between_nodes.)
"""
