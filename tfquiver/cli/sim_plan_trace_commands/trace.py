"""`tfquiver trace record`: which jobs read which data sets of a cluster, for `tfquiver sim` and `plan`."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tfquiver import durable, errors, named_files, plain_text
from tfquiver.cli import calls
from tfquiver.cli.sim_plan_trace_commands import reading_jobs
from tfquiver.cluster_address.service_name import coordinator_address
from tfquiver.proto.tfquiver.v1 import coordinator_pb2_grpc
from tfquiver.service.coordinator.measuring_jobs_and_stores.meters import GONE_S
from tfquiver.service.sim.workloads_and_recordings.recording import Recorder
from tfquiver.sizes_durations_amounts import durations
from tfquiver.sizes_durations_amounts.amounts import many

_ABOUT = """Records which jobs read which data sets, and how fast they could, until Ctrl-C, SIGTERM, or --for is over;
then `tfquiver sim FILE` and `tfquiver plan FILE` say what another policy, cache or store would have made of them. The
file is replaced every few seconds, whole: what is there can be read at any time. It costs the cluster a question a
second."""
_POLL_S, _WRITE_S = 1.0, 5.0
_WRITE_SHARE = 10.0  # times as long as it takes: a hundred thousand jobs take seconds, in which nobody is asked
_NODES_PER_S = 10.0  # that are asked, for as long as a job waits, what has come from the store
_BEFORE_S = 3600.0  # so long a coordinator remembers what a job has read


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("trace")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    record = commands.add_parser("record", help="write down what jobs read, until Ctrl-C", description=_ABOUT)
    record.add_argument(
        "file",
        type=named_files.typed_path,
        metavar="FILE",
        help="JSON, a scenario of `tfquiver sim`; must not be there",
    )
    calls.add_where(record)
    record.add_argument("--for", dest="for_s", type=durations.seconds, metavar="DURATION", help="90s, 15m, 8h or 2d; "
                        "default: until it is stopped")  # fmt: skip
    record.add_argument("--anonymous", action="store_true", help="nobody's names: job, job (2), data, data (2) ...")
    record.set_defaults(run=_record)


def _record(arguments: argparse.Namespace) -> int:
    path: Path = arguments.file
    named_files.check_output(str(path), path, new=True)  # what somebody has recorded is not written over
    address, token = coordinator_address(calls.where(arguments)), calls.token(arguments)
    whom, recorder = f"coordinator {address}", Recorder()
    with _stopped() as stop, calls.channel(address) as channel:
        stub: Any = coordinator_pb2_grpc.CoordinatorStub(channel)
        began, asking = time.monotonic(), reading_jobs.Asking(stub, token, whom)
        cluster = asking.ask(_BEFORE_S)
        recorder.poll(0.0, cluster.seen)
        write(path, recorder, cluster.cache_bytes, arguments.anonymous)
        _say(f"recording {whom} to {path}; Ctrl-C ends it")
        written_s, wrote_s, asked_s, cache_bytes, away = 0.0, 0.0, 0.0, cluster.cache_bytes, False  # wrote_s: it took
        end_s = arguments.for_s or float("inf")
        while not stop.wait(max(0.0, min(_POLL_S, end_s - (time.monotonic() - began)))):
            now_s = time.monotonic() - began
            try:
                cluster = asking.ask(2 * GONE_S)
            except errors.TfquiverError as error:
                if not away:
                    _say(f"goes on when it is back: {plain_text.plain(error)}")
                away = True
            else:
                away, cache_bytes = False, max(cache_bytes, cluster.cache_bytes)
                asks = cluster.waits and now_s >= asked_s + _WRITE_S + len(cluster.nodes) / _NODES_PER_S
                asked_s = now_s if asks else asked_s
                recorder.poll(now_s, cluster.seen, reading_jobs.store_bytes(cluster.nodes, token) if asks else None)
            if now_s >= written_s + max(_WRITE_S, _WRITE_SHARE * wrote_s):
                try:
                    write(path, recorder, cache_bytes, arguments.anonymous)
                except errors.TfquiverError as error:  # a full disk, for one: what was written before is still there
                    _say(f"not written, goes on: {plain_text.plain(error)}")
                written_s = time.monotonic() - began
                wrote_s = written_s - now_s
            if now_s >= end_s:
                break
    write(path, recorder, cache_bytes, arguments.anonymous)
    _say(f"{path}: {_summary(recorder)}")
    return 0


def _summary(recorder: Recorder) -> str:
    silent = recorder.silent
    return (
        f"{many(recorder.jobs - silent, 'job')}, of which {recorder.reading} still read"
        + (f"; {silent} read nothing, or with an op or node too old to say what" if silent else "")
        + ("; those that came later are left out" if recorder.full else "")
        + ("" if recorder.jobs > silent else "; there is nothing to simulate: record anew while jobs read")
    )


def write(path: Path, recorder: Recorder, cache_bytes: int, anonymous: bool) -> None:
    """Whole or not at all. Raises TfquiverError naming the file."""
    data = json.dumps(recorder.scenario(cache_bytes, anonymous), indent=1).encode()
    try:
        durable.write(path, [data, b"\n"])
    except (OSError, ValueError) as error:
        raise named_files.not_written(error, str(path), path) from error


@contextmanager
def _stopped() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set: what was recorded is written then."""
    stop = threading.Event()
    here = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGINT, signal.SIGTERM) if here else ()
    before = {number: signal.getsignal(number) for number in numbers}
    for number in numbers:
        if before[number] is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, lambda *_: stop.set())
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
