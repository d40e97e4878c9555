"""TensorFlow's own tf.data service dispatcher, with its journal repaired and lost workers' tasks ended.

Called as a program. `journal_reader`, `proto_wire` and `task_table` are pure. Never changes what TensorFlow's service
promises.
"""
