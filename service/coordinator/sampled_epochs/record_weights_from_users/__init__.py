"""Weights of records that users gave for draws: received in parts (`coming_weights`), kept on the disk
(`weight_files`), those used longest ago forgotten where room ends.

Called by the calls that bring weights, and when an epoch is drawn by them. Never draws, and never holds more of them in
memory than it was told to.
"""
