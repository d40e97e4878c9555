"""The `tfquiver` command: one module for each command; those that have several are in folders with the commands'
names. And what commands of several kinds need: durations that are read.

Called by people. Asks running services, and prints; never imports TensorFlow, and keeps no state.
"""
