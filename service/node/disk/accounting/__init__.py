"""What is known of the entries without looking: their sizes, in whose account each is, what may come, what goes. Pure.

Called by the disk cache, under its lock; `orders` says which data sets there are, and how each is to be kept. Never
touches a file, and never lets the quota be exceeded, reservations included (I-4).
"""
