"""Epochs: who reads in which session, what is leased, acked, given back, resumed; when it ends; who of people and jobs
that is (`users`). Pure: clock, randomness, the journal and the data sets are arguments; but for `reading`, which has
sessions on the loop, where leases are waited for.

Called by the coordinator. Never knows what is cached but by asking a sampler.
"""
