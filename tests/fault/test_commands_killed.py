"""The command itself is killed, at any moment of its work: what it was to do is done, or is not, and the same command
again does it. Nothing is left over that keeps anybody from it."""

from __future__ import annotations

import os
import random
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path

import pytest

from tests.support import numbered, warm
from tests.support.cluster import wait_until
from tests.support.daemons import end_daemons
from tests.support.mounted import command, sums
from tests.support.named_place import Place
from tests.support.privileges import needs_fuse
from tfquiver.mounting import mount_points
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb

pytestmark = pytest.mark.long
KILLS = 5
FILES, RECORDS, RECORD_BYTES = 8, 200, 10_000
SIZE_BYTES = FILES * RECORDS * (RECORD_BYTES + 16)
ENDS_S = 120.0


class Killed:
    """Commands, ended by SIGKILL after a random part of what they take when they are let alone."""

    def __init__(self, seed: int) -> None:
        self._choose = random.Random(seed)

    def times(self, *words: object) -> Callable[[], None]:
        """Runs it once to its end; what is given kills it at a moment of that time, another one each time."""
        began = time.monotonic()
        ended(*words)
        took_s = time.monotonic() - began
        parts = [(number + self._choose.random()) / KILLS for number in range(KILLS)]
        self._choose.shuffle(parts)
        moments = iter(parts)

        def kill() -> None:
            with warm.Popen(command(*words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
                time.sleep(next(moments) * took_s)  # it is the moment that is tested
                process.kill()

        return kill


def ended(*words: object, codes: tuple[int, ...] = (0,)) -> str:
    """What it said."""
    done = warm.run(command(*words), capture_output=True, text=True, timeout=ENDS_S)
    assert done.returncode in codes, f"{words}: {done.stdout}{done.stderr}"
    return f"{done.stdout}{done.stderr}"


@pytest.fixture
def killed(seed: int) -> Killed:
    return Killed(seed)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    numbered.write(tmp_path / "data", FILES, RECORDS, RECORD_BYTES)
    made = Place(tmp_path, nodes=1)
    yield made
    made.stop()


def test_data_sets_with_names(place: Place, tmp_path: Path, killed: Killed) -> None:
    where = f"--service={place.coordinator.address}"

    def words(name: str, *more: object) -> list[object]:
        return ["dataset", name, "train", *more, where]

    def resident() -> int:
        return int(place.call("Get", pb.GetNamedDatasetRequest(name="train", resident=True)).resident_bytes)

    def names() -> list[str]:
        return [one.spec.name for one in place.call("List", pb.ListNamedDatasetsRequest()).datasets]

    create = words("create", "--wait", "--source", f"{tmp_path / 'data'}/part-*")
    delete, evict, prefetch, refresh = (words("delete"), words("evict", "--wait"), words("prefetch", "--wait"),
                                        words("refresh", "--wait"))  # fmt: skip
    kill = killed.times(*create)
    kill_delete = None
    for _ in range(KILLS):
        if kill_delete is None:
            kill_delete = killed.times(*delete)
        else:
            kill_delete()
            said = ended(*delete, codes=(0, 1))
            assert "is removed" in said or "no data set 'train'" in said, said
        wait_until(lambda: not names(), "it is gone")
        wait_until(lambda: place.total("entries") == 0, "no bytes without an owner")
        kill()
        assert names() in ([], ["train"])
        ended(*create)
        assert place.state("train") == pb.NamedDataset.STATE_READY
        ended(*prefetch)  # files that a deleted one had are not read again to make it
        assert resident() == SIZE_BYTES
    for what, other, wanted in ((evict, prefetch, 0), (prefetch, evict, SIZE_BYTES)):
        kill = killed.times(*what)
        for _ in range(KILLS):
            ended(*other, codes=(0, 3))
            kill()
            ended(*what)
            assert resident() == wanted, what
    kill = killed.times(*refresh)
    for gone, path in enumerate(sorted((tmp_path / "data").iterdir())[:KILLS], 1):
        path.unlink()
        kill()
        ended(*refresh)
        named = place.call("Get", pb.GetNamedDatasetRequest(name="train"))
        assert named.dataset.size_bytes == SIZE_BYTES // FILES * (FILES - gone)
        assert named.version <= 1 + gone
    ended(*delete)
    wait_until(lambda: place.total("entries") == 0, "no bytes without an owner")


def test_what_is_kept_in_a_directory(tmp_path: Path, killed: Killed) -> None:
    files, cache_dir = tmp_path / "data", tmp_path / "cache"
    numbered.write(files, FILES, RECORDS, RECORD_BYTES)
    reading, clearing = ("warm", f"{files}/part-*", f"--service={cache_dir}"), ("clear", cache_dir)

    def entries() -> int:
        return sum(path.is_file() for path in (cache_dir / "objects").glob("??/??/*"))

    try:
        kill_warm = killed.times(*reading)
        whole = entries()
        assert whole
        kill_clear = killed.times(*clearing)
        for number in range(KILLS):
            if number % 2:  # with a node there and without
                end_daemons(cache_dir)
            kill_warm()
            ended(*reading)
            assert entries() == whole
            kill_clear()
            ended(*clearing)
            assert entries() == 0
    finally:
        end_daemons(cache_dir)


@needs_fuse
def test_mounts(tmp_path: Path, killed: Killed) -> None:
    files, cache_dir, point = tmp_path / "data", tmp_path / "cache", tmp_path / "mnt"
    numbered.write(files, FILES, RECORDS, RECORD_BYTES)
    point.mkdir()
    mount, unmount = ("mount", f"--cache_dir={cache_dir}", f"{files}/part-*", point), ("unmount", point)
    expected = sums(files)
    try:
        kill_mount, kill_unmount = killed.times(*mount), killed.times(*unmount)
        for number in range(KILLS):
            if number % 2:
                end_daemons(cache_dir)
            kill_mount()
            said = ended(*mount, codes=(0, 1))
            assert mount_points.at(point) is not None, said
            assert len([one for one in mount_points.mounts() if one.path == str(point)]) == 1
            assert sums(point) == expected
            kill_unmount()
            said = ended(*unmount, codes=(0, 1))
            assert mount_points.at(point) is None, said
            assert not list(point.iterdir())
            wait_until(lambda: not processes(point), "nobody serves what is not there")
    finally:
        while mount_points.at(point) is not None:
            mount_points.unmount(point, lazy=True)
        end_daemons(cache_dir)


def processes(point: Path) -> list[int]:
    found = []
    for one in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(point).encode() in one.read_bytes():
                found.append(int(one.parent.name))
        except OSError:
            continue
    return [pid for pid in found if pid != os.getpid()]


def test_packing(tmp_path: Path, killed: Killed) -> None:
    source, out = tmp_path / "tars", tmp_path / "out"
    source.mkdir()
    for number in range(6):
        with tarfile.open(source / f"{number}.tar", "w") as made:
            for sample in range(200):
                content = random.Random(sample).randbytes(20_000)
                info = tarfile.TarInfo(f"{number}-{sample:04}.jpg")
                info.size = len(content)
                made.addfile(info, BytesIO(content))

    def words(where: Path) -> list[object]:
        return ["pack", *sorted(source.iterdir()), "-o", where, "--workers=2"]

    kill = killed.times(*words(tmp_path / "whole"))
    for _ in range(KILLS):
        kill()  # there, where nothing is missing
    for missing in (6, 3, 1):
        for path in sorted(out.glob("*.tfrecord"))[:missing]:
            path.unlink()
        with warm.Popen(command(*words(out)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            wait_until(lambda: any(out.glob(".*.tfrecord.*.tmp")), "a file is being written", every_s=0.0005)
            process.kill()
        assert any(out.glob(".*.tmp"))
        ended(*words(out))
        assert sums(out) == sums(tmp_path / "whole"), "nothing is left over of what was killed"
