"""The room of their own that pinned data sets have: taken, given back, and waited for.

Called by `named_keeping` and `named_requests`. Never decides who is to be pinned, and changes no state of a data set.
"""
