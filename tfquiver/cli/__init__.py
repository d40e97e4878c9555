"""The `tfquiver` command: one module for each command; those that have several are in folders with the commands' names.
And what commands of several kinds need: calls, durations that are read, fields called as they were typed.

Called by people. Asks running services, and prints; never imports TensorFlow, and keeps no state.
"""
