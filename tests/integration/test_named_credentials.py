"""Data sets that are read with credentials by reference: found where the node is, told to nobody."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import numbered
from tests.support.cluster import Server, wait_until
from tests.support.gcs_emulator import gcs_emulator, status
from tests.support.mounted import mounted, sums
from tests.support.privileges import needs_fuse
from tests.support.s3_server import S3Server, s3_server
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2_grpc
from tfquiver.stores.gcs import GcsStore

READY, FAILED = pb.NamedDataset.STATE_READY, pb.NamedDataset.STATE_FAILED


@pytest.fixture
def s3() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture
def cluster(tmp_path: Path, s3: S3Server) -> Iterator[tuple[Server, Server]]:
    """A node that has no credentials of its own."""
    (tmp_path / "secrets" / "team").mkdir(parents=True)
    coordinator = Server(
        "tfquiver.service.coordinator.main",
        ["--port=0", f"--work_dir={tmp_path / 'work'}"],
        tmp_path / "coordinator.log",
    ).start()
    flags = [f"--cache_dir={tmp_path / 'cache'}", f"--coordinator={coordinator.address}", "--quota=64MiB"]
    env = {
        "TFQUIVER_SECRETS_DIR": str(tmp_path / "secrets"),
        "AWS_EC2_METADATA_DISABLED": "true",
        "HOME": str(tmp_path),
    }
    node = Server("tfquiver.service.node.main", flags, tmp_path / "node.log", env).start()
    yield coordinator, node
    node.stop()
    coordinator.stop()


def ask(coordinator: Server, method: str, request: Any) -> Any:
    with rpc.channel(coordinator.address) as channel:
        return getattr(named_datasets_pb2_grpc.NamedDatasetsStub(channel), method)(
            request, timeout=20, wait_for_ready=True
        )


def until(coordinator: Server, name: str, state: int) -> pb.NamedDataset:
    request = pb.GetNamedDatasetRequest(name=name, resident=True)
    wait_until(lambda: ask(coordinator, "Get", request).state == state, f"{name} is {state}", 60)
    named: pb.NamedDataset = ask(coordinator, "Get", request)
    return named


def test_a_secret_is_found_where_the_node_is_and_told_to_nobody(
    s3: S3Server, cluster: tuple[Server, Server], tmp_path: Path
) -> None:
    coordinator, node = cluster
    for path in numbered.write(tmp_path / "data", 2, 60, 20_000):
        s3.put(f"bucket/{path.name}", path.read_bytes())
    key, secret = s3.new_user("s3:*")
    s3.checks(True)
    good = {"key": key, "secret": secret, "endpoint_url": s3.url, "region": "us-east-1"}
    (tmp_path / "secrets" / "team" / "s3").write_text(json.dumps(good))
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps(good | {"secret": "not-the-secret-of-that-key"}))

    spec = pb.DatasetSpec(name="train", sources=["s3://bucket/part-*"], credentials="k8s:team/s3")
    ask(coordinator, "Create", spec)
    named = until(coordinator, "train", READY)
    assert named.resident_bytes == named.dataset.size_bytes > 0
    ask(coordinator, "Evict", pb.NamedDatasetRequest(name="train"))
    assert until(coordinator, "train", READY).resident_bytes == 0
    ask(coordinator, "Prefetch", pb.NamedDatasetRequest(name="train"))
    assert until(coordinator, "train", READY).resident_bytes == named.dataset.size_bytes, "shards are read so, too"

    for name, reference, why in (
        ("wrong", f"file:{wrong}", "data set wrong"),
        ("lacking", "env:NO_SUCH_VARIABLE", "env:NO_SUCH_VARIABLE: there is no such variable"),
        ("absent", "k8s:team/nothing", "credentials k8s:team/nothing"),
    ):
        ask(coordinator, "Create", pb.DatasetSpec(name=name, sources=["s3://bucket/part-*"], credentials=reference))
        assert why in until(coordinator, name, FAILED).reason
    expired = tmp_path / "secrets" / "team" / "expired"
    expired.write_text(json.dumps(good | {"expires_at_s": 1}))
    ask(coordinator, "Create", pb.DatasetSpec(name="old", sources=["s3://bucket/*"], credentials="k8s:team/expired"))
    assert "k8s:team/expired: they have expired" in until(coordinator, "old", FAILED).reason

    for server in (node, coordinator):
        server.stop()
    told = ask_nothing(tmp_path, secret) + ask_nothing(tmp_path, "not-the-secret-of-that-key")
    assert not told, "neither logs, nor the commit log, nor digests say it"


@needs_fuse
def test_it_is_mounted_by_its_name_where_nobody_has_credentials(
    s3: S3Server, cluster: tuple[Server, Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator, _ = cluster
    for path in numbered.write(tmp_path / "data", 2, 60, 20_000):
        s3.put(f"bucket/{path.name}", path.read_bytes())
    key, secret = s3.new_user("s3:*")
    s3.checks(True)
    reference = tmp_path / "secrets" / "s3.json"
    reference.write_text(json.dumps({"key": key, "secret": secret, "endpoint_url": s3.url, "region": "us-east-1"}))
    spec = pb.DatasetSpec(name="train", sources=["s3://bucket/part-*"], credentials=f"file:{reference}")
    ask(coordinator, "Create", spec)
    until(coordinator, "train", READY)
    ask(coordinator, "Evict", pb.NamedDatasetRequest(name="train"))
    for name in [name for name in os.environ if name.startswith(("AWS_", "FSSPEC_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    service = f"--service={coordinator.address}"
    with mounted(tmp_path / "mnt", tmp_path / "cache", ["train"], service, own_daemon=False) as mount:
        assert sums(mount.point) == sums(tmp_path / "data")


def test_a_store_of_gs_is_shown_the_token_that_the_reference_says(
    cluster: tuple[Server, Server], tmp_path: Path
) -> None:
    coordinator, _ = cluster
    with gcs_emulator() as emulator:
        store = GcsStore({"endpoint": emulator.address})
        try:
            for number in range(3):
                data = numbered.write(tmp_path / str(number), 1, 20, 5000, seed=number)[0].read_bytes()
                store._client.bucket("bucket").blob(f"set{number}/file").upload_from_string(data)
        finally:
            store.close()
        emulator.weather = lambda: refuse_others
        for number, (name, token, state) in enumerate(
            (("right", "ya29.right", READY), ("wrong", "ya29.other", FAILED), ("lacking", "", FAILED))
        ):
            secret = tmp_path / "secrets" / f"{name}.json"
            secret.write_text(json.dumps({"endpoint": emulator.address} | ({"token": token} if token else {})))
            spec = pb.DatasetSpec(name=name, sources=[f"gs://bucket/set{number}/*"], credentials=f"file:{secret}")
            ask(coordinator, "Create", spec)
            found = until(coordinator, name, state)
            assert (state == READY) == (found.resident_bytes == found.dataset.size_bytes > 0)
            whose = f"with the credentials file:{secret} of data set {name}, not those of an environment: put right"
            assert state == READY or whose in found.reason
            assert "ya29" not in found.reason
        ask(coordinator, "Evict", pb.NamedDatasetRequest(name="right"))
        assert until(coordinator, "right", READY).resident_bytes == 0
        ask(coordinator, "Prefetch", pb.NamedDatasetRequest(name="right"))
        assert until(coordinator, "right", READY).resident_bytes > 0, "shards are read so, too"


def refuse_others(handler: Any) -> bool:
    """Of a store that takes one token."""
    if handler.headers.get("Authorization") == "Bearer ya29.right":
        return False
    return status(401)(handler)


def ask_nothing(root: Path, secret: str) -> list[str]:
    """Files of the servers that have it."""
    found = subprocess.run(["grep", "-rl", "--", secret, str(root)], capture_output=True, text=True)
    return [path for path in found.stdout.splitlines() if "/secrets/" not in path and not path.endswith("wrong.json")]
