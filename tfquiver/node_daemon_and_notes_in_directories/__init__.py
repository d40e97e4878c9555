"""The daemon of a cache directory, as others reach it: found or started, its socket kept (`daemon`, `starting`,
`endpoints`); the directory's lock and who its node is (`directory`). And what servers leave in their directories for
whoever comes next: which cluster's node it is (`cluster_file`), the quota that it was given last (`quota_file`), where
it is reached (`node_endpoint`), where one logs to that somebody has started by hand (`logged_to`), which servers
`tfquiver up` has started (`up_file`), and whose a --work_dir is (`server_file`); whether a directory is a cache's at
all (`whose_files`).

Called by the servers that write them, by those who start servers there, by clients and by the command line. Never
imports TensorFlow, never asks a server more than whether it is there, never takes a note for proof that one runs (its
lock says that), and knows nothing of shards, nor of what an entry holds.
"""
