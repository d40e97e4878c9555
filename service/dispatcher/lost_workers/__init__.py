"""tf.data workers that are lost: watched, silent for how long, which of their tasks hold up clients for nothing, ended
for them (`reaper`); and clients that have left an iteration (`departures`).

Called by the dispatcher's `main`, from the reaper's thread; all but `reaper` and `silences` is pure. Never calls a task
finished while records of it may be unread: the epoch would end short.
"""
