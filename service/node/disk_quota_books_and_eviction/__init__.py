"""What the disk holds, against its quota: entries that are here, coming, going, each counted towards its data set;
which may come or stay and which go, some by lot. Pure.

Called by the disk cache, under its lock; `coordinator_orders` says which data sets there are, and how each is to be
kept. Never touches a file nor asks the file system, and never lets the quota be exceeded, reservations included (I-4).
"""
