"""Sampled data sets: which scheme draws the epochs of which session key (`asked`: pure), an epoch drawn by a scheme
that may be anybody's, beside the loop and in bounded time (`samplings`).

Called by the coordinator when a session is made. The schemes are in `sampling_schemes`. Never knows what is cached.
"""
