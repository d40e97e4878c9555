"""Files of a cache directory beside its entries: which servers `tfquiver up` has started there, what was saved, logs;
and the directory cleared where nothing runs.

Called by those who start servers there, by the node and by the command line. Never starts or asks a server, and knows
nothing of what an entry holds.
"""
