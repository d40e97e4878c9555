"""The `tfquiver` command: one module for each command.

Called by people. Asks running services, and prints; never imports TensorFlow, and keeps no state.
"""
