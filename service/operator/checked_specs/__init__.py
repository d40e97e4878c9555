"""What somebody wrote into a `Dataset` or a `TrainingJob`: each field checked, and named by its path where it is wrong.
Pure.

Called by the operator's rounds. Specs are anybody's: never takes a value that the coordinator or Kubernetes would have
to refuse, and never asks anybody.
"""
