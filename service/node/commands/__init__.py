"""What a person asks of one node, through `tfquiver warm` and `tfquiver clear`.

Called by the node's gRPC service. Takes as long as it takes, and tells how far it is; never decides what is kept here.
"""
