"""What TensorFlow's dispatcher keeps in its working directory: its journal, read and repaired, and the graphs of its
data sets, in which sessions are named.

Called by the dispatcher's `main` before TensorFlow starts, and by what watches workers. Never writes there but to cut a
torn tail.
"""
