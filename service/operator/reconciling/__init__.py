"""Reconciling: from what an object's spec asks for and what is there to what is to be done, and the `status` that says
so (`dataset_plan`, `job_plan`, `conditions`: pure); the Job that is made of a `TrainingJob` (`job_manifest`: pure); and
one round of it, carried out (`rounds`).

Called by the operator's handlers. The plans never ask anybody, and never look at a clock.
"""
