"""Room for data sets that have names: that of pinned ones, of their own: taken, given back, and waited for; and what
goes so that another one fits (`room`, pure).

Called by `named_keeping` and `named_requests`. Never decides who is to be pinned, and changes no state of a data set.
"""
