"""How processes talk: gRPC with its errors and retries, addresses, lists in pages, bundles. And gRPC and protocol
buffers by hand (`unary_call`, `proto_wire`): what TensorFlow's service says without published descriptions, calls
from threads of a training that may fork, and connections to machines that are gone without a word, which end
(`silent_machines`).

Called by whoever has a connection, and by who watches TensorFlow's servers. Says how a message travels, never what is
done about it. (Frames on Unix sockets: tfquiver/socket_frames; those that nodes exchange are theirs alone:
service/node/bodies_sent_between_nodes.)
"""
