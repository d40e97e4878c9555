"""Reconciling: from an object's `spec` and what is there to what is to be done, and the `status` that says so. Pure.

Called by the operator's handlers. Specs are anybody's: each field is checked, and named where it is wrong. Never asks
anybody, and never looks at a clock.
"""
