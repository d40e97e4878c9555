"""Sampling schemes: of which shards an epoch has how many draws, and which of them come first; found by name, ours and
those of other packages; what they may not draw; what was asked for of each session key. Pure.

Called by the coordinator when a session is made, and by the simulator (`pacing`). Never knows what is cached: of the
draws that may come next, `order` takes those that are.
"""
