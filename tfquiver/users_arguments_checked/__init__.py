"""What users give to `tfquiver.dataset` and `tfquiver.distribute`: groups, defaults, and what is wrong with them.

Called by the client and by registering; users know the groups as `tfquiver.Reading` and the like. Never imports
TensorFlow, and never asks anybody: an argument is judged by itself.
"""
