"""What runs in the user's process: `tfquiver.dataset` and `tfquiver.distribute`, and what follows a trainer's progress.

Called by the user, through the names at `tfquiver`. Imports TensorFlow only when a name that needs it is used. Never
reads records or keeps them: the op and its node do.
"""
