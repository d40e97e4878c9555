"""Reconciling: from what an object's spec asks for and what is there to what is to be done, and the `status` that says
so. Pure.

Called by the operator's rounds. Never asks anybody, and never looks at a clock.
"""
