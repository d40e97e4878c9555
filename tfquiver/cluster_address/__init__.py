"""Which cluster is meant: by an argument, a cache directory or TFQUIVER_SERVICE; its coordinator's and its dispatcher's
address.

Commands take what runs on this machine where nothing is named (`running`, which finds it by the locks of directories:
`running_nodes`). Called by the command line and by clients.
Never asks anybody: that somebody answers there is found out elsewhere.
"""
