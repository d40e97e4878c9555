"""A coordinator with a thousand nodes and a thousand jobs over 5 million shards: a real server with its default flags.

Two client processes play the nodes and the jobs over gRPC (`thousand/`), on a connection each, with the stream of calls
that a real node has (service/node/coordinator_link/call_stream.py): every node beats as
often as a real one does among so many (after 2.5 s with news, 4.5 s without), tells what has come and gone as it was
ordered, what it read from the store and what its readers say, and waits for orders; every job has a session of its
own over one of 20 data sets, on a node of its own, and leases and acknowledges 32 shards at a time, at 2 to 16 MB/s as
far as they are cached. The cache has room for half of the data, so that the default policy, `benefit`, has to choose,
and to probe. Nodes hold the smallest data sets at first, as the policy has it until it has measured.

Measured, while all that goes on: what planning takes, as the coordinator tells (`PlanTimes`); how late its loop is:
what a call takes that does nothing (`SetPolicy` without a policy), every 20 ms from this process, which does nothing
else, so that the call itself and waiting for a core are in it; heartbeats without an answer, nodes that were lost. Then
a burst: 200 jobs, 16 at a time, lease and acknowledge as fast as they can, with all else going on. "On one core" are
the leases of a second of CPU time that the coordinator takes in all, heartbeats and orders included; how many come in a
second of the clock is told, and depends on what the clients, and whatever else runs, leave of the machine: so it is
told how many cores each had, and how long the coordinator's threads waited for one (`waited_cores`: seconds a second).
Memory is the resident set of the server: with one session of each data set, with all of them reading, and at the end;
what lies between the first two is the sessions', as far as it is seen, and whatever else has come meanwhile.

    python -m tests.bench.coordinator_thousand [--quick] [--patient] [--calls together|apart|one_by_one]
        [--scale NODES,JOBS,DATA_SETS,SHARDS]

The last line is one JSON object; exit code 1 when a bar is missed.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import psutil

from tests.bench.bars import Bar, finish, quick_parser, run_bench
from tests.bench.coordinator import register
from tests.bench.thousand.clients import Clients
from tests.bench.thousand.nodes import percentile
from tests.bench.thousand.scale import SHARD_BYTES, Scale, digest, write_hashes
from tests.support.cluster import Server
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import coordinator_pb2_grpc

LOOK_S, LOOK_TIMEOUT_S = 0.02, 10.0
WHOLE, QUICK = Scale(1000, 1000, 20, 5_000_000), Scale(200, 200, 8, 500_000)
LEAST_PLANS = 2
PLAN_S, LAG_MS, LEASES_PER_S = 1.0, 50.0, 20_000
# What sessions may take: a byte of each shard is 5 GB for a thousand over 5 million, instead of 40; and what each takes
# however little it reads: its meters, two windows of its sampler, a call that waits.
SESSION_BYTES_A_SHARD, SESSION_BYTES = 1.0, 256 << 10
# And all the rest: digests, tables, chunks, what nodes hold; and what making them took and the allocator has kept, in
# which sessions may have found room without any more being seen of them.
SHARD_BYTES_OF_RSS = 400


def say(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


class Lag:
    """What a call takes that does nothing."""

    def __init__(self, stub: Any) -> None:
        self._stub, self.ms = stub, list[float]()
        self._task = asyncio.create_task(self._look())

    async def _look(self) -> None:
        while True:
            began_s = time.perf_counter()
            try:
                await self._stub.SetPolicy(pb.SetPolicyRequest(), timeout=LOOK_TIMEOUT_S)
            except grpc.RpcError as error:
                say(f"a call that does nothing: {error!r}")
                began_s = time.perf_counter() - LOOK_TIMEOUT_S  # who was refused was not served soon
            self.ms.append(1000 * (time.perf_counter() - began_s))
            await asyncio.sleep(LOOK_S)

    def since(self) -> list[float]:
        """And begins anew. Raises what has ended it."""
        if self._task.done():
            self._task.result()
        ms, self.ms = self.ms, []
        return ms

    def stop(self) -> None:
        self._task.cancel()


@dataclass(frozen=True)
class Cores:
    """What a process has had, and how long its threads that could run had none; in all, as seconds."""

    at_s: float
    cpu_s: float
    waited_s: float

    @classmethod
    def of(cls, processes: Sequence[psutil.Process]) -> Cores:
        cpu_s = sum(sum(one.cpu_times()[:2]) for one in processes)
        return cls(time.perf_counter(), cpu_s, sum(_waited_s(one.pid) for one in processes))

    def since(self, before: Cores) -> tuple[float, float]:
        """Cores that it had, and lacked."""
        took_s = self.at_s - before.at_s
        return (self.cpu_s - before.cpu_s) / took_s, (self.waited_s - before.waited_s) / took_s


def _waited_s(pid: int) -> float:
    """Of threads that have ended nothing is known."""
    waited_ns = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            waited_ns += int((thread / "schedstat").read_text().split()[1])
    return waited_ns / 1e9


def lag_figures(prefix: str, ms: list[float]) -> dict[str, float]:
    return {
        f"{prefix}lag_ms_p50": percentile(ms, 50), f"{prefix}lag_ms_p99": percentile(ms, 99),
        f"{prefix}lag_ms_max": max(ms, default=math.inf),
    }  # fmt: skip


async def measure(
    server: Server, base: Path, scale: Scale, warm_up_s: float, steady_s: float, burst: int, calls: str
) -> dict[str, Any]:
    process, figures = psutil.Process(server.process.pid), dict[str, Any]()

    def rss_mib(name: str) -> float:
        figures[f"rss_mib_{name}"] = mib = process.memory_info().rss / (1 << 20)
        return mib

    async with rpc.aio_channel(server.address) as channel:
        stub: Any = coordinator_pb2_grpc.CoordinatorStub(channel)
        rss_mib("empty")
        digest_ids = []
        for number in range(scale.datasets):
            one = digest(base, number)
            await register(stub, one)
            digest_ids.append(one.digest_id.hex())
        (base / "digests").write_text("\n".join(digest_ids))
        say("data sets are registered")
        async with Clients(server.address, base, scale, calls) as clients:
            await clients.do("join")
            say("nodes have joined")
            lag = Lag(stub)
            await clients.do("open_first")
            before_mib = rss_mib("one_session_a_data_set")
            await clients.do("open_others")
            say("jobs have opened their sessions")
            figures |= lag_figures("opening_", lag.since())
            await clients.do("read")
            await asyncio.sleep(warm_up_s)
            after_mib = rss_mib("all_sessions")
            say("warm")
            await clients.do("forget")
            figures |= lag_figures("warming_", lag.since())
            began = Cores.of([process])
            await asyncio.sleep(steady_s)
            steadily = Cores.of([process])
            took_s = steadily.at_s - began.at_s
            steady_cores, figures["steady_server_waited_cores"] = steadily.since(began)
            figures["steady_server_cores"] = steady_cores
            figures |= lag_figures("", lag.since())
            steady = await clients.do("figures")
            say("the burst begins")
            theirs = [psutil.Process(one.pid) for one in clients.processes]
            began, theirs_began = Cores.of([process]), Cores.of(theirs)
            bursts = await clients.do(f"burst {burst // len(clients.processes)}")
            ended = Cores.of([process])
            cpu_s = ended.cpu_s - began.cpu_s
            for whose, (had, lacked) in (
                ("server", ended.since(began)),
                ("clients", Cores.of(theirs).since(theirs_began)),
            ):
                figures |= {f"burst_{whose}_cores": had, f"burst_{whose}_waited_cores": lacked}
            figures |= lag_figures("burst_", lag.since())
            last = await clients.do("figures")
            times = (await stub.SetPolicy(pb.SetPolicyRequest(), timeout=30.0)).times
            live = len((await stub.ListNodes(pb.ListNodesRequest(), timeout=30.0)).nodes)
            lag.stop()
            rss_mib("end")
            await clients.do("stop")
    sizes = scale.sizes
    others = sum(sizes[number % scale.datasets] for number in range(scale.datasets, scale.jobs))
    leased, burst_s = sum(one["leased"] for one in bursts), max(one["took_s"] for one in bursts)
    sessions_mib_most = (SESSION_BYTES_A_SHARD * others + SESSION_BYTES * scale.jobs) / (1 << 20)
    log = server.log.read_text(errors="replace")
    for line in log.splitlines():
        if " is lost: " in line or "rror" in line:
            say(line)
    return figures | {
        "background_leases_per_s": sum(one["leased"] for one in steady) / took_s,
        "heartbeats_per_s": sum(one["heartbeats"] for one in steady) / took_s,
        "orders_per_s": sum(one["orders"] for one in steady) / took_s,
        "orders_mib_per_s": sum(one["orders_bytes"] for one in steady) / took_s / (1 << 20),
        "shards_told_per_s": sum(one["shards_told"] for one in steady) / took_s,
        "heartbeat_ms_p50": statistics.median(one["heartbeat_ms_p50"] for one in steady),
        "heartbeat_ms_p99": max(one["heartbeat_ms_p99"] for one in last),
        "heartbeat_ms_max": max(one["heartbeat_ms_max"] for one in last),
        "heartbeats_missed": sum(one["heartbeats_missed"] + one["heartbeats_asked_again"] for one in last),
        "leases_failed": sum(one["leases_failed"] for one in last),
        "nodes_lost": scale.nodes - live + log.count(" is lost: "),
        "held_up": log.count("held up for"),
        "plans": times.plans, "plan_s_last": times.last_s, "plan_s_longest": times.longest_s,
        "policy_s_longest": times.longest_policy_s, "change_s_longest": times.longest_change_s,
        "probes": log.count(" is probed: "), "settings_changed": log.count("] dataset "),
        "leases_per_s": leased / burst_s,
        "leases_on_one_core_per_s": leased / max(cpu_s, 1e-9),
        # Of the CPU time beyond what everything else took before.
        "leases_per_cpu_s": leased / max(cpu_s - steady_cores * burst_s, 1e-9),
        "burst_leases": leased, "burst_jobs": sum(one["jobs"] for one in bursts),
        "session_bytes_a_shard": (after_mib - before_mib) * (1 << 20) / others,
        "sessions_mib": after_mib - before_mib,
        "sessions_mib_most": sessions_mib_most,
        "rss_mib_most": figures["rss_mib_empty"] + sessions_mib_most + SHARD_BYTES_OF_RSS * scale.shards / (1 << 20),
    }  # fmt: skip


def bars(figures: dict[str, Any]) -> list[Bar]:
    return [
        Bar("plans", figures["plans"], LEAST_PLANS),
        Bar("plan_s_longest", figures["plan_s_longest"], PLAN_S, at_most=True),
        Bar("lag_ms_p99", figures["lag_ms_p99"], LAG_MS, at_most=True),
        Bar("heartbeats_missed", figures["heartbeats_missed"], 0, at_most=True),
        Bar("nodes_lost", figures["nodes_lost"], 0, at_most=True),
        Bar("leases_on_one_core_per_s", figures["leases_on_one_core_per_s"], LEASES_PER_S),
        Bar("sessions_mib", figures["sessions_mib"], figures["sessions_mib_most"], at_most=True),
        Bar("rss_mib_end", figures["rss_mib_end"], figures["rss_mib_most"], at_most=True),
    ]


def main() -> None:
    parser = quick_parser(__doc__, "a fifth of the nodes and jobs, a tenth of the shards")
    parser.add_argument(
        "--patient", action="store_true", help="nodes are given up after a minute: where other work has the machine"
    )
    parser.add_argument(
        "--calls",
        choices=["together", "apart", "one_by_one"],
        default="together",
        help="apart: nothing goes along with heartbeats, as before that; one_by_one: a call of gRPC's own each, as "
        "nodes made them before they had streams",
    )
    parser.add_argument("--scale", default="", help="NODES,JOBS,DATA_SETS,SHARDS, other than what is said above")
    arguments = parser.parse_args()
    quick = arguments.quick
    scale, warm_up_s, steady_s, burst = (QUICK, 12.0, 12.0, 80_000) if quick else (WHOLE, 90.0, 60.0, 400_000)
    if arguments.scale:
        scale = Scale(*map(int, arguments.scale.split(",")))
    with tempfile.TemporaryDirectory(prefix="coordinator-thousand-") as directory:
        base = Path(directory)
        write_hashes(scale, base)
        flags = ["--port=0", f"--work_dir={base}/work", *["--node_timeout_ms=60000"] * arguments.patient]
        server = Server("tfquiver.service.coordinator.main", flags, base / "log").start()
        say(f"the coordinator's pid is {server.process.pid}")
        try:
            figures = asyncio.run(measure(server, base, scale, warm_up_s, steady_s, burst, arguments.calls))
        except BaseException:
            say(f"the end of the coordinator's log ({server.process.poll()}):\n{server.log_tail()}")
            raise
        finally:
            server.stop(60.0)
    setting = {
        "nodes": scale.nodes, "jobs": scale.jobs, "data_sets": scale.datasets, "shards": scale.shards,
        "data_tb": scale.shards * SHARD_BYTES / 1e12, "calls": arguments.calls,
    }  # fmt: skip
    rounded = {name: round(value, 3) for name, value in figures.items()}
    finish("coordinator_thousand", {**setting, **rounded}, bars(rounded), quick)


if __name__ == "__main__":
    run_bench(main)
