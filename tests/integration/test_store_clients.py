"""Clients with credentials and endpoints of their own, at the same time, on one node that another user started."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest

import tfquiver
from tests.support import records, warm
from tests.support.cluster import Server
from tests.support.gcs_emulator import GcsEmulator, gcs_emulator
from tests.support.node_calls import CALL_S, status
from tests.support.s3_server import S3Server, s3_server
from tfquiver import errors
from tfquiver.grpc_plumbing import rpc
from tfquiver.node_daemon_and_notes_in_directories import daemon as local
from tfquiver.node_daemon_and_notes_in_directories import endpoints
from tfquiver.node_daemon_and_notes_in_directories.node_endpoint import NodeEndpoint
from tfquiver.node_daemon_and_notes_in_directories.store_environment import without
from tfquiver.proto.tfquiver.v1 import node_pb2, node_pb2_grpc

NODE = "tfquiver.service.node.main"
RECORDS = 200
# Nothing is kept, so that each epoch reads the store.
_READ = """
import json, sys, time
import tfquiver
started = time.monotonic()
first_use = tfquiver.FirstUse(cut=tfquiver.CutPolicy(1000, 2000, 4000))
try:
    data = tfquiver.dataset(sys.argv[2], cache_dir=sys.argv[1], quota=1, first_use=first_use)
    epochs = [sorted(record.decode() for record in data.as_numpy_iterator()) for _ in range(2)]
    print(json.dumps({"first": epochs[0][0], "records": len(epochs[0]), "alike": epochs[0] == epochs[1]}))
except Exception as error:
    print(json.dumps({"error": type(error).__name__, "says": str(error), "s": time.monotonic() - started}))
"""


def content(mark: str) -> bytes:
    return records.stream(f"{mark} {at:05}".encode() * 10 for at in range(RECORDS))


@pytest.fixture
def cache_dir(tmp_path: Path) -> Iterator[Path]:
    found = tmp_path / "cache"
    yield found
    endpoints.close_all()
    if (found / "node.json").exists():
        pid = int(json.loads((found / "node.json").read_text())["pid"])
        if psutil.pid_exists(pid):
            daemon = psutil.Process(pid)
            daemon.terminate()
            daemon.wait(60)


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as running:
        running.put("data/train-1", content("s3"))
        yield running


def reading(cache_dir: Path, source: str, environment: dict[str, str]) -> subprocess.Popen[str]:
    bare = without(os.environ) | {"HOME": str(cache_dir.parent), "AWS_EC2_METADATA_DISABLED": "true"}
    return warm.Popen(
        [sys.executable, "-c", _READ, str(cache_dir), source],
        warm_kind="tensorflow",
        env=bare | environment,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.long
def test_every_client_reads_with_its_own(cache_dir: Path, server: S3Server, tmp_path: Path) -> None:
    """A sweep of strangers: the daemon's starter has no credentials at all; two have the same names elsewhere."""
    (tmp_path / "local-1").write_bytes(content("local"))
    right = server.environment()
    with ExitStack() as exits:
        emulators = [exits.enter_context(gcs_emulator()) for _ in range(2)]
        for mark, emulator in zip(["gs-a", "gs-b"], emulators, strict=True):
            put(emulator, mark)
        starter = reading(cache_dir, str(tmp_path / "local-1"), {})
        assert json.loads(starter.communicate(timeout=90)[0])["first"].startswith("local")
        clients = [
            reading(cache_dir, "s3://data/train-*", right),
            reading(cache_dir, "s3://data/train-*", right | {"AWS_SECRET_ACCESS_KEY": "wrong"}),
            *(reading(cache_dir, "gs://bucket/train-*", {"STORAGE_EMULATOR_HOST": one.address}) for one in emulators),
        ]
        said = [json.loads(client.communicate(timeout=100)[0]) for client in clients]
    assert [one.get("first", "")[:4] for one in said] == ["s3 0", "", "gs-a", "gs-b"], said
    assert all(one["records"] == RECORDS and one["alike"] for one in said if "first" in one)
    assert said[1]["error"] in ("PermissionError_", "UnauthenticatedError"), said
    node_log = (cache_dir / "log" / "node.log").read_text()
    assert not any(secret in node_log for secret in (server.secret, server.key))
    for path in cache_dir.rglob("*"):
        if path.is_file() and not path.is_symlink():
            assert server.secret.encode() not in path.read_bytes(), path


def put(emulator: GcsEmulator, mark: str) -> None:
    from tfquiver.stores.gcs import GcsStore

    store = GcsStore({"endpoint": emulator.address})
    store._client.bucket("bucket").blob("train-1").upload_from_string(content(mark))
    store.close()


def data_of_s3(cache_dir: Path, server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A tf.data.Dataset of which nothing stays cached: each epoch is read from the store."""
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    cut = tfquiver.CutPolicy(1000, 2000, 4000)
    return tfquiver.dataset("s3://data/train-*", cache_dir=cache_dir, quota=1, first_use=tfquiver.FirstUse(cut=cut))


def test_a_node_that_was_restarted_is_told_before_readers_come(
    cache_dir: Path, server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = data_of_s3(cache_dir, server, monkeypatch)
    assert len(list(data.as_numpy_iterator())) == RECORDS
    pid = int(json.loads((cache_dir / "node.json").read_text())["pid"])
    os.kill(pid, signal.SIGKILL)
    assert len(list(data.as_numpy_iterator())) == RECORDS
    endpoint = local.find(cache_dir)
    assert endpoint is not None
    assert status(endpoint.control).store_bytes > 0


def test_readers_do_not_come_before_it_however_long_the_telling_takes(
    cache_dir: Path, server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node is back, and its socket where it was: readers would find it by themselves."""
    data = data_of_s3(cache_dir, server, monkeypatch)
    read, held_back = threading.Event(), list[bool]()

    def is_held_back(name: str, endpoint: NodeEndpoint) -> None:
        held_back.append(not read.wait(4.0))  # as long as a reader that went there would need to fail

    monkeypatch.setattr(endpoints, "_told_when_found", [is_held_back, *endpoints._told_when_found])
    os.kill(int(json.loads((cache_dir / "node.json").read_text())["pid"]), signal.SIGKILL)
    try:
        assert len(list(data.as_numpy_iterator())) == RECORDS
    finally:
        read.set()
    assert held_back == [True]


def test_missing_credentials_are_told_at_once(cache_dir: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    start = time.monotonic()
    with pytest.raises(errors.UnauthenticatedError, match="set AWS_ACCESS_KEY_ID"):
        tfquiver.dataset("s3://data/train-*", cache_dir=cache_dir)
    assert time.monotonic() - start < 3.0


def test_credentials_are_not_taken_over_the_network(tmp_path: Path) -> None:
    node = Server(NODE, [f"--cache_dir={tmp_path / 'c'}", "--quota=1MiB", "--port=0"], tmp_path / "log").start()
    request = node_pb2.UseStoresRequest(client_id="c", ttl_s=10)
    sockets = Path(node.ready["socket"]).parent
    try:
        with rpc.channel(f"unix:{sockets / 'control.sock'}") as channel:
            node_pb2_grpc.NodeStub(channel).UseStores(request, timeout=CALL_S, wait_for_ready=True)
        with (
            rpc.channel(node.ready["control"]) as channel,
            pytest.raises(grpc.RpcError, match="on this machine's Unix socket only"),
        ):
            node_pb2_grpc.NodeStub(channel).UseStores(request, timeout=CALL_S, wait_for_ready=True)
    finally:
        node.stop()
