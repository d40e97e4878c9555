"""What a person may set on a running cluster: its data sets (`tfquiver dataset`) and how one is cached (the words for
it), how fast a job may read, and which policy decides the rest.

Called by people, through the command line. Never decides anything: the coordinator refuses what cannot be.
"""
