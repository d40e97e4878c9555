"""Which data sets this process reads, by which its steps are told to the coordinator as those of their job.

Called by the client and by the readers without TensorFlow as they make one, and by what tells and explains steps. Never
imports TensorFlow, and never calls anybody.
"""
