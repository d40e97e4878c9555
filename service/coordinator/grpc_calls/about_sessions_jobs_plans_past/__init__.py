"""The calls on sessions and jobs: readers, steps, what was measured, what each may read from the store; on what the
policy decides; on what a cluster did over the last day; and the one that returns when anything is other.

Called by nodes, training processes and the command line, through the servicer. Where callers have names, those of a job
are its own; never decides anything.
"""
