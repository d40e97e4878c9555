"""`tfquiver-operator`: what Kubernetes' objects `Dataset` and `TrainingJob` ask for, made so, again and again. What
objects may ask for is in `checked_specs`; what is to be done, from that and from what is there, and the `status` that
says so (`dataset_plan`, `job_plan`, `conditions`: pure); the Job that is made of a `TrainingJob` (`job_manifest`:
pure); one round of it, carried out (`rounds`).

Called as a server of its own (`main`), in a pod or anywhere that reaches both. Keeps nothing that would be missed:
killed at any moment, it goes on from what both say. Never reads data, never imports TensorFlow.
"""
