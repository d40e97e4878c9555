"""On which nodes each data set is kept: the rules that were set, what they come to with the nodes that live, who is
nearest to a reader, how far nodes have got with what is to move; where a job would find most of its data. Pure.

Called by the cache, which names owners in leases, and by the calls on placement. Never moves anything: nodes do, who
are told in their orders.
"""
