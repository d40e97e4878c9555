"""Files of a cache directory beside its entries: where its node is reached, which servers `tfquiver up` has started;
and the directory cleared where nothing runs.

Called by those who start servers there, by clients and by the command line. Never starts or asks a server, and knows
nothing of what an entry holds.
"""
