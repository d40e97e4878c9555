"""This node as a member of its cluster: its line to the coordinator, what it says it holds, and what mounts here
show (`shown_by_mounts`), whose tokens it is shown.

Called by the node, and by readers for their leases. The only room that dials the coordinator; never carries out what it
says: `coordinator_orders` does.
"""
