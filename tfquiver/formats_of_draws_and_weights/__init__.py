"""Draws of sampled epochs, which records they pick, and weights of records: values, and their bytes in messages and
files. Pure.

Called by everybody, client, node and coordinator, which thereby agree without telling each other. Never draws: schemes
do, in the coordinator.
"""
