"""`tfquiver mount` with the kernel's own FUSE: the files are the source's, whatever happens to node and cache."""

from __future__ import annotations

import mmap
import os
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support import warm
from tests.support.daemons import daemons
from tests.support.mounted import command, entries, every, forget_pages, mounted, sums, write_source
from tests.support.privileges import needs_fuse, needs_mounts

pytestmark = [needs_fuse]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_source(tmp_path / "data")


def test_the_tree_is_the_sources(tmp_path: Path, source: Path) -> None:
    with mounted(tmp_path / "mnt", tmp_path / "cache", every(source)) as mount:
        assert sums(mount.point) == sums(source)
        for path in map(Path, every(source)):
            shown, real = (mount.point / path.relative_to(source)).stat(), path.stat()
            assert (shown.st_size, shown.st_mtime_ns) == (real.st_size, real.st_mtime_ns)
        assert {path.name for path in mount.point.iterdir()} - {".tfquiver"} == {"a", "b", "empty.tfrecord"}
        file = mount.point / Path(every(source)[0]).relative_to(source)
        with pytest.raises(OSError):
            file.open("ab")
        with pytest.raises(FileNotFoundError):
            (mount.point / "b" / "nothing").stat()


@needs_mounts
def test_four_readers_cold_and_warm_through_a_nodes_death(tmp_path: Path, source: Path) -> None:
    expected = sums(source)
    with (
        mounted(tmp_path / "mnt", tmp_path / "cache", every(source)) as mount,
        ThreadPoolExecutor(4) as readers,
    ):
        for kill in (False, True, True):
            forget_pages()
            reading = [readers.submit(sums, mount.point) for _ in range(4)]
            if kill:
                for node in daemons(tmp_path / "cache"):
                    node.send_signal(signal.SIGKILL)
            assert [one.result(120) for one in reading] == [expected] * 4
        mount.logged("is there again")


@needs_mounts
def test_a_damaged_entry_is_fetched_again(tmp_path: Path, source: Path, seed: int) -> None:
    """Some of them after the mount has opened and checked them, and while four read."""
    choose, expected, cache_dir = random.Random(seed), sums(source), tmp_path / "cache"
    with mounted(tmp_path / "mnt", cache_dir, every(source)) as mount, ThreadPoolExecutor(4) as readers:
        assert sums(mount.point) == expected
        for _ in range(3):
            forget_pages()
            reading = [readers.submit(sums, mount.point) for _ in range(4)]
            for path in entries(cache_dir):
                with suppress(FileNotFoundError), path.open("r+b") as file:  # dropped, by whoever has met its damage
                    at = choose.randrange(max(1, path.stat().st_size))
                    if byte := os.pread(file.fileno(), 1, at):
                        os.pwrite(file.fileno(), bytes([byte[0] ^ 0x40]), at)
            assert [one.result(120) for one in reading] == [expected] * 4
            forget_pages()
            assert sums(mount.point) == expected
        assert daemons(cache_dir), "it is the node's, and did not die of it"


@needs_mounts
def test_random_reads_and_maps_are_the_files(tmp_path: Path, source: Path, seed: int) -> None:
    choose = random.Random(seed)
    with mounted(tmp_path / "mnt", tmp_path / "cache", every(source)) as mount:
        for path in map(Path, every(source)):
            whole = path.read_bytes()
            if not whole:
                continue
            with (mount.point / path.relative_to(source)).open("rb") as file:
                for _ in range(50):
                    offset, length = choose.randrange(len(whole) + 10), choose.randrange(300_000)
                    assert os.pread(file.fileno(), length, offset) == whole[offset : offset + length]
                forget_pages()
                with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
                    assert mapped[:] == whole


def test_a_changed_source_is_an_io_error_with_a_reason(tmp_path: Path, source: Path) -> None:
    changed, gone = (Path(path) for path in every(source)[:2])
    cache_dir = tmp_path / "cache"
    with mounted(tmp_path / "mnt", cache_dir, every(source)) as mount:
        for path in entries(cache_dir):
            path.unlink()
        data = bytearray(changed.read_bytes())
        data[-100] ^= 1
        changed.write_bytes(data)
        gone.unlink()
        for path in (changed, gone):
            with pytest.raises(OSError, match="Input/output error"):
                (mount.point / path.relative_to(source)).read_bytes()
            mount.logged(f"{path}: EIO")
        mount.logged("has changed since")
        for path in map(Path, every(source)):
            if path not in (changed, gone):
                assert (mount.point / path.relative_to(source)).read_bytes() == path.read_bytes()


def test_reads_wait_for_a_node_that_is_away_and_then_fail(tmp_path: Path, source: Path) -> None:
    """Stopped, not dead: nobody starts another."""
    with mounted(tmp_path / "mnt", tmp_path / "cache", every(source), "--patience_s=1") as mount:
        (node,) = daemons(tmp_path / "cache")
        node.suspend()
        try:
            began = time.monotonic()
            with pytest.raises(OSError, match="Input/output error"):
                (mount.point / Path(every(source)[0]).relative_to(source)).read_bytes()
            assert 0.9 < time.monotonic() - began < 20
        finally:
            node.resume()
        assert sums(mount.point) == sums(source)


def test_what_is_cached_is_next(tmp_path: Path, source: Path) -> None:
    cache_dir = tmp_path / "cache"
    with mounted(tmp_path / "mnt", cache_dir, every(source)):
        pass
    warm.run(command("clear", cache_dir), check=True, capture_output=True)
    with mounted(tmp_path / "mnt", cache_dir, every(source), "--read_ahead=0") as mount:
        ahead = mount.point / ".tfquiver" / "next"
        names = {str(Path(path).relative_to(source)) for path in every(source)}
        here = {"empty.tfrecord"}
        for path in sorted(names - here)[:2]:
            (mount.point / path).read_bytes()
            here.add(path)
            told = ahead.read_text().splitlines()
            assert len(told) == len(names)
            assert set(told) == names
            assert set(told[: len(here)]) == here
        assert sorted(path.name for path in (mount.point / ".tfquiver").iterdir()) == ["next", "next0"]
        assert ".tfquiver" not in {path.name for path in mount.point.iterdir()}, "no class of images"
