"""Hashes as numbers, and sorted numbers of millions of shards: what is sorted, looked up and counted in columns.

Called by everybody, client, node and coordinator, which thereby agree without telling each other. Pure: never knows
what a number stands for.
"""
