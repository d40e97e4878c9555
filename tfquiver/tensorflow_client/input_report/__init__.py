"""`tfquiver.explain_input`: what a tf.data pipeline's time goes to, and what would change it.

Called by the user. Never changes a pipeline: it reads some of it, and says what it saw.
"""
