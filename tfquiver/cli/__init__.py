"""The `tfquiver` command: one module for each command; those that have several are in folders with the commands'
names. And what commands of several kinds need: durations that are read, pictures that are saved.

Called by people; the demo saves its picture as commands do (`png`). Asks running services, and prints; never imports
TensorFlow, and keeps no state.
"""
