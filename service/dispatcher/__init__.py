"""TensorFlow's own tf.data service dispatcher: its journal read and repaired (`journal`); workers that are lost watched
and told of, their tasks ended where they hold up clients for nothing (`lost_workers_and_leftover_tasks`), as are the
sessions that trainers have left; known again by its work_dir wherever it is started.

Called as a program. Never changes what TensorFlow's service promises; never writes to its journal
but to cut a torn tail, and never calls a task finished while records of it may be unread: the epoch would end short.
"""
