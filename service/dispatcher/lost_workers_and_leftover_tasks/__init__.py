"""Workers that are lost (`worker_watch`, `silences`), and tasks of TensorFlow's service that hold up clients for
nothing (`task_table`; `unread_tasks`: whose clients had their end; `outages`: when these ask at the latest), said
(`held_up`) and ended (`reaper`): which of their sessions are over, as the coordinator knows (`session_news`), which are
kept open by workers alone (`departures`), what is known over a restart (`seen_file`), and the calls that TensorFlow has
for it, by hand (`service_rpc`). `worker_watch`, `silences`, `outages`, `departures`, `task_table` and `unread_tasks`
are pure.

Called by the dispatcher's program. Never calls a task finished while records of it may be unread: the epoch would end
short.
"""
