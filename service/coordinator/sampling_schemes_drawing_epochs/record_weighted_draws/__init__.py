"""Epochs by weights of single records: the scheme (`record_weighted`), and which records of a shard a draw is of:
chances that are functions of seed, draw and record alone. Pure.

Whoever asks again, after a kill, from a checkpoint, or in another process, is told the same; only the seed is written
down. Called by the scheme `weighted`, and by `sampling_asked_for_and_users_weights`, for nodes that ask. Never holds
more than some of a data set's records at once.
"""
