"""Work that takes longer than a loop may be held: in parts between calls, or in a thread beside it;
what many ask for, once for all of them.

Called by whatever has much to compute. Knows nothing of what is computed.
"""
