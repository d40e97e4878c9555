"""A coordinator and nodes that Prometheus scrapes, for tests of alerts."""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from pathlib import Path

from tests.support import fixed_ports, node_calls, rotating
from tests.support.cluster import Server
from tests.support.reader_client import ReaderClient
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.scanning.cutting import CutPolicy

SHARDS = 40
CUT = CutPolicy(1, 1, 1)


class AlertWorld:
    """First `coordinator`, then each `node`, which come up together: `await_ready`. Each has its metrics on a port that
    it keeps. `close` ends all of them."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.servers: list[Server] = []

    @property
    def targets(self) -> list[str]:
        return [server.ready["metrics"] for server in self.servers]

    def coordinator(self, work_dir: Path, env: Mapping[str, str] | None = None) -> Server:
        flags = f"--work_dir={work_dir}", "--node_timeout_ms=3000"
        return self._server("coordinator", "coordinator", *flags, env=env).await_ready()

    def node(self, name: str, cache_dir: Path, quota: str, env: Mapping[str, str] | None = None) -> Server:
        where = f"--coordinator={self.servers[0].address}"
        return self._server("node", name, f"--cache_dir={cache_dir}", f"--quota={quota}", where, env=env)

    def await_ready(self) -> None:
        for server in self.servers[1:]:
            server.await_ready()

    def read(self, node: Server, name: str) -> None:
        """An epoch of a data set of files here, that is scanned there first."""
        if not (self.base / name).exists():
            rotating.write(self.base / name, SHARDS, seed=zlib.crc32(name.encode()))  # what is alike is cached already
        self.read_all(node, node_calls.ensure(node.ready["control"], self.base / name / "part-*", CUT))

    def read_all(self, node: Server, dataset: types_pb2.Dataset) -> None:
        """An epoch."""
        client = ReaderClient(node.ready["socket"], dataset.digest_id)
        assert len(list(client.records())) == dataset.records
        client.close()

    def close(self) -> None:
        for server in reversed(self.servers):
            server.kill()

    def _server(self, kind: str, name: str, *flags: str, env: Mapping[str, str] | None) -> Server:
        metrics = f"--metrics_address=127.0.0.1:{fixed_ports.free_port()}"  # the same when it comes again
        module, log = f"tfquiver.service.{kind}.main", self.base / f"{name}.log"
        server = Server(module, ["--port=0", metrics, *flags], log, env)
        self.servers.append(server)
        return server.launch()


def damage_entries(cache_dir: Path) -> None:
    """A byte of each."""
    entries = [path for path in (cache_dir / "objects").rglob("*") if path.is_file()]
    assert entries
    for path in entries:
        path.chmod(0o600)
        with path.open("r+b") as file:
            file.seek(-1, os.SEEK_END)
            last = file.read(1)
            file.seek(-1, os.SEEK_END)
            file.write(bytes([last[0] ^ 1]))
