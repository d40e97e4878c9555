"""The nodes as the coordinator knows them: which live, what each has said that it holds, and so which shards are
resident and where; who owns those that are not. Pure.

Called with every heartbeat, by the cache and by the simulator. Believes what nodes report and nothing else; never
decides what they should hold.
"""
