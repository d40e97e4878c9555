"""Logs. Their lines: what each is about (`logs`: job, data set, shard, node, as fields), how a server's look
(`log_lines`: for people, or JSON), those that would come too often (`rare_lines`), and those that a standard error that
hangs would hold up (`late_lines`). Their files, of servers and mounts that run in the background for people: appended
to, put aside when they are long, at the start and by the process that writes them (`kept_short`), whose last lines are
shown where something does not start (`log_file`).

Called by whatever says something in a log, by whoever starts a server and by what is started. Never follows a link.
"""
