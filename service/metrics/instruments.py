"""How long things take: the histograms of all servers, with their buckets, in one place.

As the official client has it these are of the process, not of an object: whoever measures names one and observes.
Observing takes about two microseconds. Each server tells those that concern it. Labels have a few values each, which no
client chooses.
"""

from __future__ import annotations

from prometheus_client import Counter, Histogram, disable_created_metrics

# From what is in memory to a store that is slow: a factor of about two and a half from one to the next.
_WAITS_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_STALLS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_LAGS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)

disable_created_metrics()  # a series more for each: when the process started is told once

LOOP_LAG = Histogram(
    "tfquiver_event_loop_lag_seconds",
    "How late the event loop comes to what is due (asked ten times a second; once, where it has nothing to do).",
    buckets=_LAGS_S,
    registry=None,
)
CALLS = Histogram(
    "tfquiver_rpc_seconds",
    "gRPC calls served, by method and status. Lease and Orders may wait until there is something to tell.",
    ["method", "code"],
    buckets=_WAITS_S,
    registry=None,
)
FAULTS = Counter(
    "tfquiver_rpc_faults",
    "gRPC calls that failed for a fault of this server (INTERNAL), by method; 0 from the start, so that one is seen.",
    ["method"],
    registry=None,
)
LOG_SYNC = Histogram(
    "tfquiver_commit_log_sync_seconds",
    "One write of the commit log, until it is durable.",
    buckets=_WAITS_S,
    registry=None,
)
LEASE = Histogram(
    "tfquiver_node_lease_seconds",
    "A node's call for shards, the coordinator's waiting included.",
    buckets=_WAITS_S,
    registry=None,
)
FETCH = Histogram(
    "tfquiver_node_fetch_seconds",
    "From a shard's being asked for until it can be handed over, by where it was: hot, disk, peer, store.",
    ["source"],
    buckets=_WAITS_S,
    registry=None,
)
STALL = Histogram(
    "tfquiver_node_reader_stall_seconds",
    "How long the pipeline behind a reader waited for records, told each second or so in which it took some.",
    buckets=_STALLS_S,
    registry=None,
)
REAPED = Counter(
    "tfquiver_dispatcher_finished_tasks", "Tasks of lost workers that the reaper has finished.", registry=None
)

# Beside these all tell LOOP_LAG, CALLS and FAULTS.
TOLD_BY = {
    "coordinator": (LOG_SYNC,),
    "node": (LEASE, FETCH, STALL, LOG_SYNC),
    "dispatcher": (REAPED,),
    "worker": (),
}
