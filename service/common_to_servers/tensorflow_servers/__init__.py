"""What TensorFlow's two servers need: a port that is known beforehand, their own node as a child, TensorFlow without
its Python.

Called by the `main` of dispatcher and worker; by the demo and by tests, which do without Keras. Never knows which of
the two it serves.
"""
