"""Sampling schemes, one a file: of which shards an epoch has how many draws, and which of them come first; found by
name, ours and those of other packages; what they are told (`numbers`, `globs_in_weights_and_classes`: what is wrong is
named); what they may not draw, looked at where an epoch is drawn (`drawing`). (Which records of a shard a draw picks is
in `record_weighted_draws`.) Pure.

Called by `sampling_asked_for_and_users_weights`, and by the simulator (`pacing`). Never knows what is cached: of the
draws that may come next, `samplers_what_a_session_reads_next` takes those that are.
"""
