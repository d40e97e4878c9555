"""Lines of logs: what each is about (`logs`: job, data set, shard, node, as fields), and those that would come too
often (`rare_lines`).

Called by whatever says something in a log. Never formats or writes a line: absl does, and `service.common_to_servers`.
"""
