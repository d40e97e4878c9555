"""Which entries may come to the disk and which have to go: quota and reservations, what each data set may keep and
has, what is drawn by lot. Pure.

Called by the disk cache, under its lock; `orders` says which data sets there are, and how each is to be kept. Never
touches a file, and never lets the quota be exceeded, reservations included (I-4).
"""
