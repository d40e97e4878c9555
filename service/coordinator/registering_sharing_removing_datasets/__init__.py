"""The registered data sets: registered, found by name, listing or digest id, shared, removed; whose they are, who may
read them, what each caller may see (`visible`, pure); their digests.

Called by the coordinator. Never takes a caller's word for what a digest is of, and never opens the user's files.
"""
