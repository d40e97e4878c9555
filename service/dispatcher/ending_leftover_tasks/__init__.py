"""Tasks of TensorFlow's service that hold up clients for nothing, ended (`reaper`): which sessions their pipelines read
from (`graphs`), which of those are over, as the coordinator knows (`session_news`), and the calls that TensorFlow has
for it, by hand (`service_rpc`).

Called by the dispatcher's program. Never calls a task finished while records of it may be unread: the epoch would end
short.
"""
