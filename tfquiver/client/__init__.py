"""What runs in the user's process: `tfquiver.dataset` and `tfquiver.distribute`, arguments, registration, resuming.

Called by the user, through the names at `tfquiver`, and by the command line, which registers and lists as users do.
Imports TensorFlow only when a name that needs it is used. Never reads records or keeps them: the op and its node do.
"""
