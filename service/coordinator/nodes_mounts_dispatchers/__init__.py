"""The nodes as the coordinator knows them: which live, and what each says with its signs of life, of its mounts, too;
and the dispatchers of tf.data service. Pure.

Called with every heartbeat. Believes what nodes report and nothing else; never decides what they should hold.
"""
