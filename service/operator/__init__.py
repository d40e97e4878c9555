"""`tfquiver-operator`: what Kubernetes' objects `Dataset` and `TrainingJob` ask for, made so, again and again.

Called as a server of its own (`main`), in a pod or anywhere that reaches both. What objects may ask for is in
`checked_specs`, decisions and the rounds that carry them out in `reconciling`; what asks the coordinator and
Kubernetes is here. Keeps nothing that would be missed: killed at
any moment, it goes on from what both say. Never reads data, never imports TensorFlow.
"""
