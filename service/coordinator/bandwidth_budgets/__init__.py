"""What each job may read from the store: its allocation (SiloD, EuroSys'23, section 5: AllocateRemoteIO), and what it
is lent of what others leave unused. Pure.

Called by sessions with every lease of shards that are not resident, and by the cache when nodes have loaded
what they were ordered. As all leases are handed out in one place, a bucket here is shared by all nodes. Never decides
who gets how much: a person, an outside scheduler or a policy does.
"""
