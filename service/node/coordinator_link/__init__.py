"""This node as a member of its cluster: its line to the coordinator, what it says it holds, what mounts here show
(`shown_by_mounts`), what readers say of themselves until a heartbeat takes it along (`reader_reports`: pure), whose
tokens it is shown, and what is worked out from who the members are (`of_members`: pure).

Called by the node, and by readers for their leases. The only room that dials the coordinator; never carries out what it
says: `coordinator_orders` does.
"""
