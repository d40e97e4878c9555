"""What servers tell Prometheus: how it is served, the instruments that more than one of them has, and what the
coordinator and a node know of themselves (`coordinator_metrics`, `node_metrics`); how late each event loop is
(`loop_lag`).

Called by each server's `main`, and by those parts of servers that measure how long something takes. Never decides
anything, knows no names of jobs or data sets but those it is handed, and never holds up what it measures.
"""
