"""gRPC and protocol buffers without their libraries: what TensorFlow's service says without published descriptions, and
calls from threads of a training that may fork.

Called by who watches TensorFlow's servers: the dispatcher, and data sets that are read through one. Never decides what
is done about an answer, and serves nobody.
"""
