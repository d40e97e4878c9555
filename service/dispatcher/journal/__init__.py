"""The journal of TensorFlow's dispatcher: read, also while it is written (`journal_reader`: pure), and a torn tail cut
(`journal_repair`); and which sessions the pipelines beside it read from (`graphs`).

Called by the dispatcher's program and by who ends leftover tasks. Never writes to it but to cut what a kill has torn.
"""
