"""The `tfquiver` command: one module for each command; those that show in `showing`, that set in `settings`, that
simulate in `simulating`.

Called by people. Asks running services, and prints; never imports TensorFlow, and keeps no state.
"""
