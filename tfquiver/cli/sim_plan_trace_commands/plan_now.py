"""The jobs that read now in a running cluster, as a scenario for `tfquiver plan`; and what had to be assumed."""

from __future__ import annotations

import argparse
import sys
import time
from math import inf
from pathlib import Path
from typing import Any

from tfquiver import errors
from tfquiver.cli import calls
from tfquiver.cli.sim_plan_trace_commands import reading_jobs
from tfquiver.cluster_address.service_name import coordinator_address
from tfquiver.grpc_plumbing import addresses
from tfquiver.plain_text import plain, shortened
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, coordinator_pb2_grpc
from tfquiver.service.coordinator.measuring_jobs_and_stores.meters import GONE_S
from tfquiver.service.coordinator.policies import registry
from tfquiver.service.sim.workloads_and_recordings.files import Scenario
from tfquiver.service.sim.workloads_and_recordings.recorded import accelerators, as_now
from tfquiver.service.sim.workloads_and_recordings.recording import REPLAN_S, WAITS
from tfquiver.service.sim.workloads_and_recordings.workload import Cluster, Workload
from tfquiver.sizes_durations_amounts.amounts import many, of_bytes

EPOCHS = 10.0
_DEFAULT = "benefit"
_WATCHED_S = 5.0


def meant(arguments: argparse.Namespace) -> str:
    """The running cluster that is meant; "": files are. Raises InvalidArgumentError."""
    given = arguments.scenario
    if given is not None and (addresses.is_address(str(given)) or _is_directory(given)):
        if arguments.trace or arguments.service:
            raise errors.InvalidArgumentError(f"{given} and --trace or --service: which?")
        return str(given)
    if given is None and arguments.trace is None:
        return calls.where(arguments)
    if arguments.service:
        raise errors.InvalidArgumentError("--service and a file: which?")
    return ""


def epochs(text: str) -> float:
    """Of a flag. Raises ArgumentTypeError."""
    try:
        many = float(text)
    except ValueError:
        many = 0.0
    if not 0 < many <= 1e6:
        raise argparse.ArgumentTypeError(f"{shortened(text)} is no number of epochs")
    return many


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # longer than a path can be, for one
        return False


def ask(where: str, token: str, each_epochs: float, policy: str = "") -> tuple[Scenario, Workload, str]:
    """`policy`: in place of the one that decides there. Raises TfquiverError: it does not answer, or nobody reads
    there."""
    address = coordinator_address(where)
    with calls.channel(address) as channel:
        stub: Any = coordinator_pb2_grpc.CoordinatorStub(channel)
        cluster = reading_jobs.Asking(stub, token, f"coordinator {address}").ask(GONE_S)
        policy = policy or _decides(stub, token, f"coordinator {address}")
    workload, store = as_now(cluster.seen, each_epochs), _store_bytes_per_s(cluster, token)
    epochs = int(each_epochs) if each_epochs == int(each_epochs) else each_epochs
    assumed = f"assumed: {many(epochs, 'epoch')} each from now on, an empty cache; " + (
        f"a store of {of_bytes(int(store))}/s, which it gives now while jobs wait (--store says otherwise)"
        if store < inf
        else f"a store without limit, for {_why_no_limit(cluster)} (--store says otherwise)"
    )
    own = Cluster(accelerators(workload), cluster.cache_bytes, store)
    return Scenario(own, (policy,), ("fifo",), REPLAN_S, 0.0, "measured", workload, None), workload, assumed


def _decides(stub: Any, token: str, whom: str) -> str:
    """The policy of the cluster; the default where persons decide alone (--policy=off), and where this machine does not
    have that policy's package, or may not ask."""
    try:
        policy = str(calls.ask(stub.SetPolicy, coordinator_pb2.SetPolicyRequest(), token, whom).policy)
        registry.check(policy)
    except errors.TfquiverError as error:
        print(f"tfquiver: simulated with policy {_DEFAULT}: {plain(error)}", file=sys.stderr)
        return _DEFAULT
    return policy


def _why_no_limit(cluster: reading_jobs.Cluster) -> str:
    """`tfquiver status` shows what each job waits: that is not nothing, and may be another a moment later."""
    most = f"(now {cluster.most_waiting:.0%} at most)"
    if cluster.waits:
        return f"jobs wait {most}, and nothing comes from the store meanwhile, as far as nodes say"
    return f"no job waits for data {WAITS:.0%} of its time or more {most}: less may be buffers, not the store"


def _store_bytes_per_s(cluster: reading_jobs.Cluster, token: str) -> float:
    """What comes from the store, if anybody waits for more. Takes a few seconds then."""
    if not cluster.waits:
        return inf
    began, before = time.monotonic(), reading_jobs.store_bytes(cluster.nodes, token)
    time.sleep(_WATCHED_S)
    after = reading_jobs.store_bytes(cluster.nodes, token)
    if before is None or after is None:
        return inf
    # Of a node that was started anew meanwhile all.
    came = sum(now - before[node] if now >= before[node] else now for node, now in after.items())
    return came / (time.monotonic() - began) if came else inf
