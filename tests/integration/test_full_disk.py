"""A disk that others have filled: data sets are read all the same, and what was missed is made up for by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import tfquiver
from tests.golden import make_commit_log
from tests.support import node_calls, records
from tests.support.cluster import Server, wait_until
from tests.support.disks import fill, tmpfs
from tests.support.privileges import needs_mounts
from tests.support.reader_client import ReaderClient
from tfquiver.cli.main import main
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.scanning.cutting import CutPolicy
from tfquiver.service.coordinator.commit_log.log_file import ROOM_BYTES, LogFile, framed

pytestmark = needs_mounts
NODE = "tfquiver.service.node.main"
COORDINATOR = "tfquiver.service.coordinator.main"
CUT = CutPolicy(2_000, 8_000, 32_000)
DISK_BYTES = 24 << 20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with tmpfs(tmp_path / "disk", DISK_BYTES) as mounted:
        yield mounted


def write(directory: Path, name: str, count: int = 2000, most: int = 300) -> tuple[Path, list[bytes]]:
    made = [b"%s %06d " % (name.encode(), n) + b"x" * (n % most) for n in range(count)]
    (directory / name).write_bytes(records.stream(made))
    return directory / name, made


def read(node: Server, dataset: types_pb2.Dataset) -> Counter[bytes]:
    client = ReaderClient(node.ready["socket"], dataset.digest_id)
    found = Counter(client.records())
    client.close()
    return found


def test_what_is_cached_and_what_is_new_is_read_on_a_disk_that_is_full(tmp_path: Path, disk: Path) -> None:
    old, new, newer = (write(tmp_path, name) for name in ("old", "new", "newer"))
    node = Server(NODE, [f"--cache_dir={disk / 'cache'}", "--quota=1TiB"], tmp_path / "node.log").start()
    try:
        known = node_calls.ensure(node.ready["control"], old[0], CUT)
        assert read(node, known) == Counter(old[1])
        others = fill(disk)
        assert "its disk is full" in tfquiver.status(str(disk / "cache"))["problems"][0]
        for _ in range(3):
            assert read(node, known) == Counter(old[1]), "its epochs are in a log that has room of its own"
        made = node_calls.ensure(node.ready["control"], new[0], CUT)
        assert read(node, made) == read(node, made) == Counter(new[1])
        node.kill()
        node.start()
        assert read(node, known) == Counter(old[1])
        made = node_calls.ensure(node.ready["control"], new[0], CUT)
        assert read(node, made) == Counter(new[1])
        others.unlink()
        digests = [disk / "cache" / "coordinator" / "digests" / f"{its.digest_id.hex()}.tfqd" for its in (known, made)]
        wait_until(lambda: all(path.exists() for path in digests), "the digest is saved when there is room")
        more = node_calls.ensure(node.ready["control"], newer[0], CUT)
        assert read(node, more) == Counter(newer[1])
        before = node_calls.status(node.ready["control"]).store_bytes
        assert read(node, more) == Counter(newer[1])
        assert node_calls.status(node.ready["control"]).store_bytes == before, "it is kept again"
    finally:
        assert node.stop() == 0, node.log_tail()


def test_a_clusters_node_starts_on_a_disk_that_is_full(
    tmp_path: Path, disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write(tmp_path, "data")
    coordinator = Server(COORDINATOR, ["--port=0", f"--work_dir={tmp_path / 'work'}"], tmp_path / "log").start()
    node = Server(
        NODE,
        [f"--cache_dir={disk / 'cache'}", "--quota=1TiB", f"--coordinator={coordinator.address}"],
        tmp_path / "log",
    ).start()
    try:
        known = node_calls.ensure(node.ready["control"], data[0], CUT)
        assert read(node, known) == Counter(data[1])
        assert node.stop() == 0, node.log_tail()
        (disk / "cache" / "cluster").unlink(missing_ok=True)  # as a version before it left the directory
        fill(disk)
        node.start()
        assert read(node, known) == Counter(data[1])
        source = write(tmp_path, "pinned")[0]
        made = ["dataset", "create", "train", "--source", str(source), "--pin", "--wait"]
        assert main([*made, "--service", coordinator.address]) == 3
        assert "tfquiver: train may not be kept whole: node " in capsys.readouterr().err, "it said yes, and no more"
        assert main(["dataset", "pin", "train", "--service", coordinator.address]) == 1
        assert "disks have room for 0 B " in capsys.readouterr().err
    finally:
        node.kill()
        coordinator.stop()


def test_a_quota_larger_than_the_disk_leaves_room_for_what_the_entries_are_for(tmp_path: Path, disk: Path) -> None:
    node = Server(NODE, [f"--cache_dir={disk / 'cache'}", "--quota=1TiB", "--codec=raw"], tmp_path / "log").start()
    try:
        for name in ("a", "b", "c"):
            data = write(tmp_path, name, 8_000, 3_000)  # 12 MB
            dataset = node_calls.ensure(node.ready["control"], data[0], CutPolicy(20_000, 80_000, 320_000))
            assert read(node, dataset) == Counter(data[1])
        status = node_calls.status(node.ready["control"])
        assert status.refused_inserts > 0
        assert status.node.used_bytes > DISK_BYTES // 2
        kept = sorted(path.stat().st_size for path in (disk / "cache" / "digests").iterdir())
        assert len(kept) == 3
    finally:
        assert node.stop() == 0, node.log_tail()


def test_the_log_goes_on_in_its_own_room_and_again_when_there_is_more(disk: Path) -> None:
    log = LogFile(disk / "commit.log")
    others = fill(disk)
    block, blocks = framed(make_commit_log.records()[0]) * 200, 0
    size_bytes = ROOM_BYTES // 2
    while blocks * len(block) < size_bytes // 2:
        log.append(block)
        blocks += 1
    log.close()
    log = LogFile(disk / "commit.log")
    while blocks * len(block) < size_bytes:
        log.append(block)
        blocks += 1
    others.unlink()
    log.append(block)
    log.close()
    log = LogFile(disk / "commit.log")
    assert len(log.records) == (blocks + 1) * 200
    log.close()
