"""Mounts in a cluster: of its nodes, by name, with a token; and what a node answers who asks for what is not theirs."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

from tests.support import node_calls, numbered, warm
from tests.support.cluster import Cluster, Server
from tests.support.mounted import command, mounted, sums
from tests.support.privileges import needs_fuse
from tests.support.reader_client import Connection, ReaderGoneError
from tests.support.started_nodes import nodes_started
from tests.support.trusted import Trusted
from tfquiver.digests.digest import Digest
from tfquiver.messages_and_binary_formats import reader_frames as frames
from tfquiver.mounting.named import digest_of


@needs_fuse
def test_through_a_clusters_node_by_files_and_by_name(tmp_path: Path) -> None:
    paths = numbered.write(tmp_path / "data", 3, 500, 1000)
    with Cluster(tmp_path / "cluster", workers=0) as cluster:
        service = f"--service={cluster.coordinator.address}"
        files = [str(path) for path in paths]
        for sources in (files, ["numbers"]):
            with mounted(
                tmp_path / "mnt", cluster.cache_dir, sources, service, "--name=numbers", own_daemon=False
            ) as mount:
                assert sums(mount.point) == sums(tmp_path / "data")
        status = warm.run(
            command("status", cluster.coordinator.address, "--json"), capture_output=True, text=True, check=True
        )
        assert '"mounts": []' in status.stdout
        point = tmp_path / "mnt"
        done = warm.run(
            command("mount", service, f"--cache_dir={tmp_path / 'elsewhere'}", "numbers", point),
            capture_output=True,
            text=True,
        )
        assert done.returncode == 1
        assert "no tfquiver-node answers in" in done.stderr


@needs_fuse
def test_what_is_mounted_is_neither_deleted_nor_forgotten_when_it_is_refreshed(tmp_path: Path) -> None:
    """An hour after a refresh whoever reads the old version has gone on to the new one; a mount has not. Here that hour
    is a second, and over when the old version of what nobody has mounted is gone."""
    for name in ("mounted", "other"):
        numbered.write(tmp_path / name, 4, 500, 1000)
    flags = {"coordinator": ["--ended_session_ms=1000", "--session_timeout_ms=1000"]}
    with Cluster(tmp_path / "cluster", workers=0, flags=flags) as cluster:
        service = f"--service={cluster.coordinator.address}"

        def dataset(*words: object) -> subprocess.CompletedProcess[str]:
            return warm.run(command("dataset", *words, service), capture_output=True, text=True, timeout=120)

        def is_old_there(name: str) -> bool:
            told = json.loads(dataset("show", name, "--json").stdout)
            return bool(told["old_versions"])

        for name in ("mounted", "other"):
            made = dataset("create", name, "--source", tmp_path / name, "--format=bytes", "--wait")
            assert made.returncode == 0, made.stderr
        with mounted(tmp_path / "mnt", cluster.cache_dir, ["mounted"], service, own_daemon=False) as mount:
            for name in ("mounted", "other"):
                (tmp_path / name / "part-000.tfrecord").write_bytes(b"another")
                assert dataset("refresh", name, "--wait").returncode == 0
            while is_old_there("other"):
                assert mount.process.poll() is None
            assert is_old_there("mounted")
            for path in sorted((tmp_path / "mounted").glob("part-00[1-3]*")):
                assert (mount.point / path.name).read_bytes() == path.read_bytes()
            refused = dataset("delete", "mounted")
            assert refused.returncode == 1
            assert "1 mount, or trainer that materializes it, reads mounted: --force" in refused.stderr
        deleted = dataset("delete", "mounted")
        assert deleted.returncode == 0, deleted.stderr


@needs_fuse
def test_a_name_is_the_newest_version_of_what_was_called_so(tmp_path: Path) -> None:
    """Also where its content was known before, by another name or as an older version: both have that of their first
    registration."""
    path = numbered.write(tmp_path / "data", 2, 500, 1000)[0]
    with Cluster(tmp_path / "cluster", workers=0) as cluster:
        service = f"--service={cluster.coordinator.address}"

        def dataset(*words: object) -> None:
            done = warm.run(command("dataset", *words, "--wait", service), capture_output=True, text=True, timeout=120)
            assert done.returncode == 0, done.stderr

        def mounted_now(source: object) -> dict[str, str]:
            with mounted(tmp_path / "mnt", cluster.cache_dir, [str(source)], service, own_daemon=False) as mount:
                return sums(mount.point)

        first, stat, bytes_before = mounted_now(tmp_path / "data"), path.stat(), path.read_bytes()
        dataset("create", "train", "--source", tmp_path / "data")
        assert mounted_now("train") == first
        path.write_bytes(bytes_before + bytes_before)
        dataset("refresh", "train")
        assert mounted_now("train") == sums(tmp_path / "data") != first
        path.write_bytes(bytes_before)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        dataset("refresh", "train")
        assert mounted_now("train") == first


@needs_fuse
def test_what_is_not_shared_any_more_is_read_no_further(tmp_path: Path) -> None:
    numbered.write(tmp_path / "data", 2, 500, 1000)
    cluster = Trusted(tmp_path)
    try:
        service = f"--service={cluster.coordinator.address}"

        def dataset(*words: object) -> None:
            token = f"--auth_token_file={cluster.token_file('ann')}"
            done = warm.run(command("dataset", *words, service, token), capture_output=True, text=True, timeout=120)
            assert done.returncode == 0, done.stderr

        dataset("create", "train", "--source", tmp_path / "data", "--wait")
        dataset("share", "train", "--with", "green")
        flags = [service, f"--auth_token_file={cluster.token_file('green')}"]
        with mounted(tmp_path / "mnt", tmp_path / "a", ["train"], *flags, own_daemon=False) as mount:
            dataset("share", "train")
            mount.logged("not shared any more")
            for path in (tmp_path / "data").iterdir():
                with pytest.raises(OSError, match="Input/output error"):
                    (mount.point / path.name).read_bytes()
            mount.logged("EIO: train is deleted, or not shared any more")
            dataset("share", "train", "--with", "green")
            mount.logged("may be read again")
            assert sums(mount.point) == sums(tmp_path / "data")
    finally:
        cluster.close()


@contextmanager
def scanned(root: Path, files: int) -> Iterator[tuple[Server, Digest]]:
    numbered.write(root / "data", files, 500, 1000)
    with nodes_started(root) as start:
        node = start()
        dataset = node_calls.ensure(node.ready["control"], root / "data" / "*")
        yield node, digest_of(node.ready["coordinator"], "", dataset)


def test_only_who_can_name_a_shard_is_given_it(tmp_path: Path) -> None:
    with scanned(tmp_path, files=2) as (node, digest):
        good = digest.hashes[0].tobytes()
        with Connection(node.ready["socket"]) as connection:
            connection.hello(frames.ROLE_MOUNT)
            connection.send(frames.Get(1, digest.digest_id, 0, good))
            got, fd = connection.receive()
            assert isinstance(got, frames.Got)
            assert got.length_bytes == int(digest.lengths[0])
            assert len(os.pread(fd, got.length_bytes, got.offset)) == got.length_bytes
            os.close(fd)
            for get, code in (
                (frames.Get(2, digest.digest_id, 0, bytes(32)), grpc.StatusCode.PERMISSION_DENIED),
                (frames.Get(3, digest.digest_id, 1 << 31, good), grpc.StatusCode.PERMISSION_DENIED),
                (frames.Get(4, bytes(32), 0, good), grpc.StatusCode.NOT_FOUND),
                (frames.Which(5, bytes(32)), grpc.StatusCode.NOT_FOUND),
            ):
                connection.send(get)
                failed, fd = connection.receive()
                assert isinstance(failed, frames.Failed)
                assert (failed.request, failed.code, fd) == (get.request, code.value[0], -1)
            connection.send(frames.Which(6, digest.digest_id))
            these, fd = connection.receive()
            assert these == frames.These(6, digest.num_shards)
            bits = int.from_bytes(os.pread(fd, 1 << 20, 0), "little")
            os.close(fd)
            assert bits == (1 << digest.num_shards) - 1
            connection.send(frames.Credit(1))
            refused, _ = connection.receive()
            assert isinstance(refused, frames.Error)
            assert refused.fatal
        with Connection(node.ready["socket"]) as reader:
            reader.hello()
            reader.send(frames.Get(1, digest.digest_id, 0, good))
            refused, _ = reader.receive()
            assert isinstance(refused, frames.Error), "a reader has a session"


@pytest.mark.parametrize("may_have_it", [True, False])
def test_who_asks_and_takes_nothing_is_let_go(tmp_path: Path, may_have_it: bool) -> None:
    """Also where each question is answered at once, with a refusal: those were kept, as many as there were."""
    with scanned(tmp_path, files=1) as (node, digest):
        hash = digest.hashes[0].tobytes() if may_have_it else bytes(32)
        with Connection(node.ready["socket"]) as connection:
            connection.hello(frames.ROLE_MOUNT)
            give_up_at, request = time.monotonic() + 60, 0
            with pytest.raises(ReaderGoneError):  # its last frame is waited for a while
                while time.monotonic() < give_up_at:
                    request = (request + 1) % 2**32
                    connection.send(frames.Get(request, digest.digest_id, 0, hash))
        with Connection(node.ready["socket"]) as other:
            assert other.hello(frames.ROLE_MOUNT)
