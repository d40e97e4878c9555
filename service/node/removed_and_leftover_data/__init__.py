"""What nobody needs any more on this node's disk: data sets that were removed, and what scans left that came to
nothing.

Called when orders or time bring it up; the coordinator says what is whose. Never lets go of bytes that a data set
names which is there.
"""
