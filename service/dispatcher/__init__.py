"""TensorFlow's own tf.data service dispatcher: its journal read and repaired, and the graphs that it keeps read;
workers that are lost watched, their tasks ended where they hold up clients for nothing (`reaper`), and told of, as are
the sessions that trainers have left; known again by its work_dir wherever it is started.

Called as a program. `journal_reader`, `departures`, `task_table` and `worker_watch` are pure. Never changes what
TensorFlow's service promises; never writes to its journal but to cut a torn tail, and never calls a task finished while
records of it may be unread: the epoch would end short.
"""
