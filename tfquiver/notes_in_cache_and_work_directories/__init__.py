"""What servers leave in their directories for whoever comes next: which cluster's node it is (`cluster_file`), the
quota that it was given last (`quota_file`), where it is reached (`node_endpoint`), where one logs to that somebody has
started by hand (`logged_to`), which servers `tfquiver up` has started (`up_file`), and whose a --work_dir is
(`server_file`); whether a directory is a cache's at all (`whose_files`).

Called by the servers that write them, by those who start servers there, and by the command line. Never asks a server
anything, and never takes a note for proof that one runs: its lock says that.
"""
