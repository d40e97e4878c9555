"""The gRPC skin of the coordinator: fields are checked, what a caller may not see is not there,
replies encoded.

Called by nodes, clients and the command line. Never decides anything: that is the coordinator's.
"""
