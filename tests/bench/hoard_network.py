"""What a cache on several nodes sends over the network: racks, and a data set that moves (Hoard, section 4.4; Quiver,
section 4.9).

Hosts are network namespaces with real TCP between them; racks are bridges with one link each to the others, and what
crosses racks is what the kernel counts on these links, with all headers and with what nodes tell the coordinator, which
stands outside the racks. Two parts:

racks: four nodes in two racks, an empty cache, a job on each node, all at once. With `--rack-local`, and in the same
run (not with --quick) without. One copy of the data set has to cross, for each rack but one; further jobs and epochs
are free. Without, the memory of the readers' own nodes (--hot) is all that saves later epochs from crossing again.

moves: a data set on two nodes of three gets the third, and goes back, while jobs of a fixed step time read it. Nothing
may be read from the store for that, and nodes take over no faster than `--move_bytes_per_s`.

    python -m tests.bench.hoard_network [--quick]

As root, with iproute2.
"""

from __future__ import annotations

import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.bench.bars import Bar, finish, quick_parser, run_bench
from tests.support import node_calls, records
from tests.support.cluster import Server, wait_until
from tests.support.hosts import Hosts, HostsError
from tests.support.reader_client import ReaderClient
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import coordinator_pb2_grpc, node_pb2, node_pb2_grpc, types_pb2
from tfquiver.scanning.cutting import CutPolicy

RACKS = {"a": "r1", "b": "r1", "c": "r2", "d": "r2"}
CUT = CutPolicy(200_000, 250_000, 400_000)
RECORD_BYTES = 60_000
MOVE_BYTES_PER_S = 8_000_000
BURST_S = 0.25  # of that, which a node may take over at once
STEP_S = 0.02
CALL_S = 20.0
SETTLED_S = 120.0


class World:
    def __init__(self, base: Path, racks: dict[str, str], records_made: int, stack: ExitStack) -> None:
        self.hosts = stack.enter_context(Hosts(sorted(racks), racks))
        self.racks, self._base, self._stack = racks, base, stack
        flags = ["--port=0", "--bind_host=[::]", "--allow_unauthenticated", f"--work_dir={base / 'work'}"]
        server = self._serve("coordinator", "", [*flags, "--node_timeout_ms=10000"])
        self.coordinator = f"{self.hosts.address(sorted(racks)[0]).rpartition('.')[0]}.1:{server.port}"
        self.nodes = {
            host: self._serve("node", host, [
                f"--cache_dir={base / host}", "--quota=2GiB", f"--coordinator={self.coordinator}", "--port=0",
                f"--bind_host={self.hosts.address(host)}", "--allow_unauthenticated",
                f"--labels=rack={rack},host={host}", f"--move_bytes_per_s={MOVE_BYTES_PER_S}",
            ])
            for host, rack in racks.items()
        }  # fmt: skip
        wait_until(lambda: len(node_calls.nodes(self.coordinator)) == len(racks), "all are members")
        rng = random.Random(3)
        for part in range(4):
            made = [rng.randbytes(RECORD_BYTES) for _ in range(records_made // 4)]
            (base / f"part-{part}").write_bytes(records.stream(made))
        self.dataset = node_calls.ensure(self.control("a"), base / "part-*", CUT)

    def control(self, host: str) -> str:
        return str(self.nodes[host].ready["control"])

    def status(self, host: str) -> node_pb2.StatusReply:
        return node_calls.status(self.control(host))

    def store_bytes(self) -> int:
        return sum(self.status(host).store_bytes for host in self.nodes)

    def sent_bytes(self) -> int:
        """From node to node, in and between racks."""
        return sum(status.peer_bytes + status.moved_bytes for status in map(self.status, self.nodes))

    def place(self, **rule: Any) -> None:
        request = pb.SetPlacementRequest(digest_id=self.dataset.digest_id, rule=types_pb2.PlacementRule(**rule))
        self._call("SetPlacement", request)

    def placement(self) -> pb.PlacementReply:
        reply: pb.PlacementReply = self._call("GetPlacement", pb.GetPlacementRequest(digest_id=self.dataset.digest_id))
        return reply

    def await_settled(self) -> None:
        wait_until(lambda: self.placement().settled, "nothing is left to move", SETTLED_S, 0.1)

    def clear(self) -> None:
        """Until nothing is left anywhere: what one node has given up it gets from another that still has it."""
        while sum(self.status(host).entries for host in self.nodes):
            for host in self.nodes:
                with rpc.channel(self.control(host)) as channel:
                    stub: Any = node_pb2_grpc.NodeStub(channel)
                    stub.Clear(node_pb2.ClearRequest(), timeout=CALL_S)

    def crossed_bytes(self) -> dict[str, int]:
        """Into each rack."""
        return {rack: self.hosts.crossed_bytes(rack)[0] for rack in sorted(set(self.racks.values()))}

    def read(self, host: str, name: str, epochs: int, step_s: float = 0.0) -> Job:
        job = Job(str(self.nodes[host].ready["socket"]), self.dataset, name, epochs, step_s)
        job.start()
        return job

    def _call(self, method: str, request: Any) -> Any:
        with rpc.channel(self.coordinator) as channel:
            stub: Any = coordinator_pb2_grpc.CoordinatorStub(channel)
            return getattr(stub, method)(request, timeout=CALL_S, wait_for_ready=True)

    def _serve(self, kind: str, host: str, flags: list[str]) -> Server:
        prefix = self.hosts.prefix(host) if host else []
        server = Server(f"tfquiver.service.{kind}.main", flags, self._base / f"{kind}{host}.log", prefix=prefix)

        def end() -> None:
            if server.running:
                server.kill()

        self._stack.callback(end)
        return server.start()


class Job(threading.Thread):
    """Reads epochs at `step_s` a shard until they are over, or it is told that it is enough."""

    def __init__(self, socket: str, dataset: types_pb2.Dataset, name: str, epochs: int, step_s: float) -> None:
        super().__init__(name=name, daemon=True)
        self._socket, self._dataset, self._epochs, self._step_s = socket, dataset, epochs, step_s
        self.read_bytes, self.enough = 0, False
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            for epoch in range(self._epochs):
                client = ReaderClient(
                    self._socket, self._dataset.digest_id, session_key=f"{self.name} {epoch}", job=self.name,
                    credit_bytes=4 << 20, timeout_s=60.0,
                )  # fmt: skip
                due = time.monotonic()
                for _, data in client.shards():
                    self.read_bytes += len(data)
                    due = max(due + self._step_s, time.monotonic() - self._step_s)
                    time.sleep(max(0.0, due - time.monotonic()))
                    if self.enough:
                        client.connection.close()
                        return
                client.close()
        except BaseException as error:  # noqa: BLE001 - raised again in `finish`
            self.failure = error

    def finish(self) -> None:
        self.join(SETTLED_S)
        if self.failure:
            raise self.failure
        assert not self.is_alive(), f"job {self.name} stands still"


def racks(base: Path, records_made: int, epochs: int, quick: bool) -> dict[str, Any]:
    """Copies of the data set that crossed racks and left the store, by how it was placed."""
    found: dict[str, Any] = {}
    with ExitStack() as stack:
        world = World(base, RACKS, records_made, stack)
        size_bytes = world.dataset.size_bytes
        for name, rule in (("rack-local", {"rack_local": True}), ("one cache", {}))[: 1 if quick else 2]:
            world.place(**rule)
            world.await_settled()
            world.clear()
            crossed, read, sent = world.crossed_bytes(), world.store_bytes(), world.sent_bytes()
            jobs = [world.read(host, f"{name} {host}", epochs) for host in RACKS]
            for job in jobs:
                job.finish()
            assert all(job.read_bytes == epochs * size_bytes for job in jobs)
            into = {rack: count - crossed[rack] for rack, count in world.crossed_bytes().items()}
            found[name] = {
                "copies_across": sum(into.values()) / size_bytes,
                "copies_into": {rack: count / size_bytes for rack, count in into.items()},
                "copies_between_nodes": (world.sent_bytes() - sent) / size_bytes,
                "copies_from_store": (world.store_bytes() - read) / size_bytes,
                "copies_read": epochs * len(RACKS),
            }
            print(f"{name}: {found[name]}", file=sys.stderr)
        found["size_bytes"] = size_bytes
    return found


def moves(base: Path, records_made: int, before_s: float) -> dict[str, Any]:
    with ExitStack() as stack:
        world = World(base, {"a": "r1", "b": "r1", "c": "r2"}, records_made, stack)
        world.place(selector="rack=r1")
        world.await_settled()
        read = world.store_bytes()
        jobs = [world.read(host, host, 10_000, STEP_S) for host in ("a", "c")]

        def rate(over: Callable[[], bool]) -> float:
            """Bytes a second of all jobs until something is so."""
            began, at = sum(job.read_bytes for job in jobs), time.monotonic()
            wait_until(over, "it is over", SETTLED_S, 0.1)
            return (sum(job.read_bytes for job in jobs) - began) / (time.monotonic() - at)

        def elapsed(seconds: float) -> Callable[[], bool]:
            end = time.monotonic() + seconds
            return lambda: time.monotonic() >= end

        rate(elapsed(before_s / 2))  # the pools fill
        found: dict[str, Any] = {"size_bytes": world.dataset.size_bytes, "steps_bytes_per_s": rate(elapsed(before_s))}
        for name, rule, receivers in (
            ("from 2 to 3 nodes", {}, ("c",)),
            ("back", {"selector": "rack=r1"}, ("a", "b")),
        ):
            moved = {host: world.status(host).moved_bytes for host in receivers}
            at = time.monotonic()
            world.place(**rule)
            # While shards come: after that the old owners wait for five seconds, which would dilute the figure.
            during = rate(lambda: _has_come(world))
            took_s = time.monotonic() - at
            came = {host: world.status(host).moved_bytes - moved[host] for host in receivers}
            world.await_settled()
            allowed = MOVE_BYTES_PER_S * (took_s + BURST_S)
            found[name] = {
                "moved_bytes": came, "took_s": took_s,
                "throughput_of_before": during / found["steps_bytes_per_s"],
                "of_what_the_rate_allows": max(came.values()) / allowed,
            }  # fmt: skip
            print(f"{name}: {found[name]}", file=sys.stderr)
        found["store_bytes"] = world.store_bytes() - read
        found["entries"] = {host: world.status(host).entries for host in ("a", "b", "c")}
        for job in jobs:
            job.enough = True
        for job in jobs:
            job.finish()
        return found


def _has_come(world: World) -> bool:
    """Every node has looked at the placement of now, and has got what it owns."""
    told = world.placement()
    reports = [one.report for one in told.moves]
    versions = {report.places_version for report in reports}
    return (
        len(reports) == len(world.nodes)
        and len(versions) == 1
        and 0 not in versions
        and not any(report.to_come_shards for report in reports)
        and bool(sum(report.to_go_shards for report in reports) or told.settled)
    )


def main() -> None:
    parser = quick_parser(__doc__, "a smaller data set")
    quick = parser.parse_args().quick
    made = 600 if quick else 4000
    try:
        with tempfile.TemporaryDirectory(prefix="tfquiver-bench-") as base:
            (Path(base) / "racks").mkdir()
            (Path(base) / "moves").mkdir()
            across = racks(Path(base) / "racks", made, 2, quick)
            moving = moves(Path(base) / "moves", made, 4.0 if quick else 20.0)
    except HostsError as error:
        finish("hoard_network", {}, [], quick, skipped=str(error))
    there, back = moving["from 2 to 3 nodes"], moving["back"]
    local = across["rack-local"]
    bars = [
        Bar("rack-local: copies across racks", local["copies_across"], 1.02, at_most=True),
        Bar("rack-local: copies from the store", local["copies_from_store"], 1.02, at_most=True),
        Bar("moves: bytes from the store", moving["store_bytes"], 0, at_most=True),
        *(
            bar
            for name, its in (("2 to 3", there), ("back", back))
            for bar in (
                Bar(f"{name}: jobs' throughput, of before", its["throughput_of_before"], 0.9),
                Bar(f"{name}: of the rate's bound", its["of_what_the_rate_allows"], 1.05, at_most=True),
            )
        ),
    ]
    finish("hoard_network", {"racks": across, "moves": moving}, bars, quick)


if __name__ == "__main__":
    run_bench(main)
