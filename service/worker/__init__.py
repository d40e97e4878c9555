"""TensorFlow's own tf.data service worker, with the op loaded and a node beside it.

Called as a program. Never holds records: the op and the node do.
"""
