"""Sampling schemes, one a file: of which shards an epoch has how many draws, and which of them come first; found by
name, ours (those by weights are in `sampling_by_weights_or_with_replacement`) and those of other packages; what they
are told (`numbers`: what is wrong is named); what they may not draw, looked at where an epoch is drawn (`drawing`);
what chance has to do with it (`chance`, `seeded_numbers`, `smallest_keys`). Pure.

Called by `sampled_sessions_and_uploaded_weights`, and by the simulator (`pacing`). Never knows what is cached: of the
draws that may come next, `samplers_and_orders_of_an_epochs_shards` takes those that are.
"""
