"""A cache for training data that many TensorFlow jobs share. Importing this does not import TensorFlow."""
