"""How a data set becomes known: its files listed, its digest found or waited for while a node scans.

Called by the client and by the command line, which registers and lists as users do. Never imports TensorFlow, and never
reads the files themselves: nodes do.
"""
