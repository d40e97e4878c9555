"""TensorFlow's own tf.data service dispatcher, with its journal repaired, lost workers' tasks ended, and told of, as
are the sessions that trainers have left; known again by its work_dir wherever it is started.

Called as a program. `journal_and_graphs.journal_reader` is pure, and `lost_workers` says what is there. Never changes
what TensorFlow's service promises.
"""
