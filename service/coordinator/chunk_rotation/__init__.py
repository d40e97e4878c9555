"""Data sets that are larger than their room are cached by chunks: which is loaded next, which goes (one file for each
rule, the board of facts they decide from), and how long one stays. Pure.

Called by `dataset_caching` and by the simulator. May be asked at any time and as often as one likes: a rule never
remembers what cannot be seen on the board again. Never waits, never journals, never knows what else is cached.
"""
