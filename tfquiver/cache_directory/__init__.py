"""Files of a cache directory beside its entries: its lock and who its node is, where that is reached, which
cluster's node it is (`cluster_file`), which servers `tfquiver up` has started.

Called by the node, by those who start servers there, by clients and by the command line. Never starts or asks a
server, and knows nothing of what an entry holds.
"""
