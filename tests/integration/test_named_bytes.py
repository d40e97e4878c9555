"""Data sets of any files that have names: made, mounted by name, made anew, emptied and warmed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import tfquiver
from tests.support import numbered
from tests.support.cluster import wait_until
from tests.support.mounted import mounted, sums
from tests.support.named_place import Place, name
from tests.support.privileges import needs_fuse
from tfquiver.cli.main import main
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2

READY = pb.NamedDataset.STATE_READY
BYTES = types_pb2.DATASET_FORMAT_BYTES
LARGE_BYTES, SMALL = 6 << 20, 40


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """One large file and many small ones, in a tree whose name a glob would take for something else."""
    rng, root = random.Random(5), tmp_path / "images [raw]"
    (root / "deep" / "er").mkdir(parents=True)
    (root / "large.tar").write_bytes(rng.randbytes(LARGE_BYTES))
    for number in range(SMALL):
        (root / "deep" / "er" / f"{number:03}.jpg").write_bytes(rng.randbytes(rng.randrange(1, 20_000)))
    return root


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path, nodes=2)
    yield made
    made.stop()


def size_bytes(root: Path) -> int:
    return sum(path.stat().st_size for path in root.rglob("*") if path.is_file())


def test_a_new_version_reads_what_has_changed_and_shares_the_rest(place: Place, data: Path) -> None:
    place.call("Create", pb.DatasetSpec(name="images", sources=[f"{data}/"], format=BYTES))
    first = place.until("images", READY)
    assert (first.version, first.dataset.records, first.dataset.size_bytes) == (1, 0, size_bytes(data))
    assert first.resident_bytes == size_bytes(data), "the scan has cached it"
    entries, read_bytes = place.total("entries"), place.total("store_bytes")
    address = place.coordinator.address
    wait_until(
        lambda: tfquiver.status(address)["store"]["most_bytes_per_s"], "people are told that a scan left the store"
    )

    large = data / "large.tar"
    whole = large.read_bytes()
    large.write_bytes(whole[: LARGE_BYTES // 2] + b"in the middle" + whole[LARGE_BYTES // 2 :])
    (data / "deep" / "new.jpg").write_bytes(b"new")
    place.call("Refresh", name("images"))
    second = place.until("images", READY)
    assert (second.version, second.dataset.size_bytes) == (2, size_bytes(data))
    assert place.total("store_bytes") - read_bytes <= large.stat().st_size + 1000, "the small files are not read again"
    wait_until(lambda: place.total("entries") == second.dataset.shards, "what was of the old version alone is deleted")
    assert abs(second.dataset.shards - entries) <= 3

    place.call("Evict", name("images"))
    assert place.until("images", READY).resident_bytes == 0
    place.call("Prefetch", name("images"))
    assert place.until("images", READY).resident_bytes == size_bytes(data)
    place.call("Delete", name("images"))
    wait_until(lambda: place.total("entries") == 0, "its bytes are gone")


def test_files_that_are_no_tfrecords_fail_with_what_to_do(
    place: Place, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    create = ["dataset", "create", "images", "--source", str(data), "--service", place.coordinator.address]
    assert main([*create, "--wait"]) == 1
    assert "is it a TFRecord file? `tfquiver pack` makes such files" in capsys.readouterr().out


@needs_fuse
def test_it_is_mounted_by_its_name_and_has_no_records(
    place: Place, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ["--service", place.coordinator.address]
    create = ["dataset", "create", "images", "--source", str(data), "--format", "bytes", *at]
    assert main([*create, "--wait"]) == 0
    assert main([*create[:-4], *at]) == 1, "of TFRecords it is another one"
    assert "images is taken" in capsys.readouterr().err
    assert main(["dataset", "show", "images", *at]) == 0
    shown = capsys.readouterr().out
    assert "format:     bytes" in shown and "records" not in shown
    service, cache_dir = f"--service={place.coordinator.address}", tmp_path / "cache0"
    with mounted(tmp_path / "mnt", cache_dir, ["images"], service, own_daemon=False) as mount:
        assert sums(mount.point) == sums(data)
    with pytest.raises(tfquiver.errors.InvalidArgumentError, match="format bytes: it has no records"):
        tfquiver.dataset("images", service=place.coordinator.address, cache_dir=cache_dir)


def test_a_digest_says_its_own_format(
    place: Place, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    digest, at = str(tmp_path / "images.tfqd"), ["--service", place.coordinator.address]
    build = ["digest", "build", f"{data}/large.tar", "-o", digest, "--format", "bytes"]
    assert main(build) == 0
    create = ["dataset", "create", "images", "--digest", digest, *at]
    assert main([*create, "--format", "tfrecord"]) == 1
    assert "has format bytes: leave out --format" in capsys.readouterr().err
    assert main(create) == main([*create, "--format", "bytes"]) == 0
    assert place.until("images", READY).dataset.size_bytes == LARGE_BYTES


def test_records_are_no_bytes_where_a_scan_must_say_so(place: Place, tmp_path: Path) -> None:
    """TFRecord files may be cut either way: two data sets, each as it was asked for. What `tfquiver pack` notes beside
    its files is no record, either."""
    numbered.write(tmp_path / "data", 2, 50, 1000)
    others = b"no record", b"{}"
    for other, content in zip((".DS_Store", "train.pack.json"), others, strict=True):
        (tmp_path / "data" / other).write_bytes(content)
    for called, format in (("records", types_pb2.DATASET_FORMAT_TFRECORD), ("files", BYTES)):
        place.call("Create", pb.DatasetSpec(name=called, sources=[f"{tmp_path / 'data'}/"], format=format))
        found = place.until(called, READY)
        assert bool(found.dataset.records) == (called == "records")
        other_bytes = 0 if called == "records" else len(b"".join(others))
        assert found.dataset.size_bytes == 2 * 50 * (1000 + 16) + other_bytes
