"""Who calls, and who may call what: roles, tokens, the one table of calls.

Called by every server's gate (tfquiver/grpc_plumbing/rpc.py, the data port) and by `tfquiver token`. Never decides
whose a data set or a session is: service/coordinator/registering_sharing_removing_datasets does.
"""
