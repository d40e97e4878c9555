"""The compiled op: which file fits which TensorFlow; found and loaded, else compiled for this user, once.

Called by the client and by TensorFlow's servers; to compile by hand: `python -m
tfquiver.ops.compiling_and_loading.build`, as setup.py and .ci do. Never called by what knows no TensorFlow:
coordinator, node, command line.
"""
