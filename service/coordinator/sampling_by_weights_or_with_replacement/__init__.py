"""Epochs by weights, or with replacement: of single records (`record_weighted`, and which records of a shard a draw is
of: `draw_planes`), of files (`weighted`, `class_balanced`, which say of patterns of files what is meant: `patterns`,
found by parts of their paths where there are many of both, `likely_patterns`), of none (`with_replacement`). Pure.

Whoever asks again, after a kill, from a checkpoint, or in another process, is told the same: chances are functions of
seed, draw and record alone, and only the seed is written down. Called by their names in
`sampling_schemes_drawing_epochs`, and by `sampled_sessions_and_uploaded_weights`, for nodes that ask. Never holds more
than some of a data set's records at once, and never lists a file.
"""
