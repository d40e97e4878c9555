"""Which data sets this process reads, by which its steps are told to the coordinator as those of their job; the node
here is told of them, and of the credentials that it is to read them with, as long as they are read (`store_access`).

Called by the client and by the readers without TensorFlow as they make one, and by what tells and explains steps. Never
imports TensorFlow, and never asks for data.
"""
