"""Epochs: who reads in which session, what is leased, acked, given back, resumed; when it ends. Pure.

Called by the coordinator. Clock, randomness, the journal and the data sets are arguments. Never knows what is cached
but by asking a sampler.
"""
