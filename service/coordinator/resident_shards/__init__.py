"""What is resident: what each node has said that it holds, and so which shards of the data sets in use are there, and
where; who owns those that are not. Pure.

Called with every report of a node, by the cache and by the simulator. Never decides what nodes should hold.
"""
