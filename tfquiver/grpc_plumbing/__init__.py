"""How processes talk: gRPC with its errors and retries, addresses, lists in pages, bundles. And gRPC and protocol
buffers by hand (`unary_call`, `proto_wire`): what TensorFlow's service says without published descriptions, and calls
from threads of a training that may fork.

Called by whoever has a connection, and by who watches TensorFlow's servers. Says how a message travels, never what is
done about it. (Frames on Unix sockets: tfquiver/messages_on_the_nodes_socket; those that nodes exchange are theirs
alone: service/node/connections_between_nodes.)
"""
