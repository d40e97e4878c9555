"""Sampled data sets: which scheme draws the epochs of which session key (`asked`: pure), an epoch drawn by a scheme
that may be anybody's, beside the loop and in bounded time (`samplings`); weights of records that users gave, received
in parts (`coming_weights`), kept on the disk (`weight_files`), those used longest ago forgotten where room ends; and
which records of a shard a draw picks by them, told to nodes, who know neither weights nor chances (`picking`).

Called by the coordinator when a session is made, by the calls that bring weights, and for nodes that ask. The schemes
are in `sampling_schemes_drawing_epochs`. Never knows what is cached, and never holds more weights in memory than it was
told to.
"""
