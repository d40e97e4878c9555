"""Shards are followed from lease to acknowledgement, and a collector is sent what it took."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.support import numbered, warm
from tests.support.cluster import Server, tensorflow_env

collected = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
FILES, RECORDS, RECORD_BYTES = 4, 400, 4096
TRAINER = """
import sys, tfquiver
print(sum(1 for _ in tfquiver.dataset(sys.argv[1], cache_dir=sys.argv[2], job="trial")))
"""


class Collector:
    """Takes OTLP over HTTP. `hangs`: takes it and never answers."""

    def __init__(self, hangs: bool = False) -> None:
        self.spans: list[Any] = []
        self.resources: list[dict[str, str]] = []
        self.asked, self._release = threading.Event(), threading.Event()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.asked.set()
                if hangs:
                    collector._release.wait(60)
                    return
                assert self.headers.get("Content-Encoding", "identity") == "identity"
                for resource in collected.ExportTraceServiceRequest.FromString(body).resource_spans:
                    collector.resources.append(
                        {one.key: one.value.string_value for one in resource.resource.attributes}
                    )
                    for scope in resource.scope_spans:
                        collector.spans.extend(scope.spans)
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("localhost", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self.url = f"http://localhost:{self._server.server_port}/v1/traces"

    def stop(self) -> None:
        self._release.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    numbered.write(tmp_path / "data", FILES, RECORDS, RECORD_BYTES)
    return tmp_path / "data"


@pytest.fixture
def collector(request: pytest.FixtureRequest) -> Iterator[Collector]:
    made = Collector(hangs=getattr(request, "param", False))
    yield made
    made.stop()


def node(tmp_path: Path, *flags: str) -> Server:
    arguments = [f"--cache_dir={tmp_path / 'cache'}", "--port=0", "--quota=1GiB", *flags]
    return Server("tfquiver.service.node.main", arguments, tmp_path / "node.log").start()


def epoch(data: Path, tmp_path: Path) -> None:
    """In a process of its own, which ends before the node: a trainer whose node goes would start another one."""
    command = [sys.executable, "-c", TRAINER, f"{data}/part-*", str(tmp_path / "cache")]
    trained = warm.run(
        command, warm_kind="tensorflow", env=tensorflow_env(), capture_output=True, text=True, timeout=60
    )
    assert (trained.returncode, trained.stdout.strip()) == (0, str(FILES * RECORDS)), trained.stderr


def about(span: Any) -> dict[str, Any]:
    return {one.key: one.value.string_value or one.value.int_value for one in span.attributes}


def test_every_shard_that_is_traced_is_told_of(data: Path, tmp_path: Path, collector: Collector) -> None:
    server = node(tmp_path, f"--trace_endpoint={collector.url}", "--trace_share=1")
    try:
        epoch(data, tmp_path)
        epoch(data, tmp_path)
    finally:
        server.stop(30)
    roots = [span for span in collector.spans if span.name == "shard"]
    told = [about(span) for span in roots]
    assert {one["tfquiver.job"] for one in told} == {"trial"}
    assert {one["tfquiver.outcome"] for one in told} == {"acknowledged"}
    times = Counter(one["tfquiver.shard"] for one in told)
    assert set(times.values()) == {2}, "each shard in each epoch"
    assert sum(one["tfquiver.bytes"] for one in told) == 2 * FILES * RECORDS * (RECORD_BYTES + 16)
    assert {one["tfquiver.source"] for one in told} <= {"hot", "disk", "store"}
    parts = {span.span_id: {} for span in roots}
    for span in collector.spans:
        if span.name != "shard":
            parts[span.parent_span_id][span.name] = span
    for root in roots:
        lease, fetch, emit = (parts[root.span_id][name] for name in ("lease", "fetch", "emit"))
        assert root.start_time_unix_nano == lease.start_time_unix_nano
        assert lease.end_time_unix_nano == fetch.start_time_unix_nano
        assert fetch.end_time_unix_nano == emit.start_time_unix_nano
        assert emit.end_time_unix_nano == root.end_time_unix_nano
    assert {one["service.name"] for one in collector.resources} == {"tfquiver-node"}


@pytest.mark.parametrize("collector", [True], indirect=True)
def test_a_collector_that_hangs_holds_up_nobody(data: Path, tmp_path: Path, collector: Collector) -> None:
    server = node(tmp_path, f"--trace_endpoint={collector.url}", "--trace_share=1")
    try:
        for _ in range(2):
            epoch(data, tmp_path)
            assert collector.asked.wait(30)
        began = time.monotonic()
        server.stop(30)
        assert time.monotonic() - began < 15
    finally:
        server.stop(30)


def test_nothing_is_traced_by_default(data: Path, tmp_path: Path) -> None:
    server = node(tmp_path)
    try:
        epoch(data, tmp_path)
        maps = Path(f"/proc/{server.process.pid}/maps").read_text()
        assert "opentelemetry" not in maps
        assert "traced" not in server.log_tail(1000)
    finally:
        server.stop()
