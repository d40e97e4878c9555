"""`tfquiver mount` with the kernel's own FUSE: the files are the source's, whatever happens to node and cache."""

from __future__ import annotations

import gzip
import mmap
import os
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

import tfquiver
from tests.support import numbered, warm
from tests.support.cluster import wait_until
from tests.support.daemons import daemons, end_daemons
from tests.support.disks import fusectl
from tests.support.mounted import command, forget_pages, mounted, sums
from tests.support.privileges import needs_fuse, needs_mounts
from tfquiver import errors
from tfquiver.cli.dataset_commands import mount
from tfquiver.cli.main import main
from tfquiver.mounting import kernel_read_ahead, mount_points
from tfquiver.scanning import tfrecord

pytestmark = [needs_fuse]
BDI = "/sys/class/bdi/{}:{}/read_ahead_kb"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    numbered.write(tmp_path / "data" / "a", 2, 1500, 1000)
    numbered.write(tmp_path / "data" / "b" / "c", 2, 1500, 1000, seed=1)  # equal files would share their shards
    text = b"".join(tfrecord.frame(b"number %d " % number * 100) for number in range(1500))  # its entries are zstd
    (tmp_path / "data" / "b" / "text.tfrecord").write_bytes(text)
    (tmp_path / "data" / "empty.tfrecord").touch()
    return tmp_path / "data"


def every(source: Path) -> list[str]:
    return [str(path) for path in sorted(source.rglob("*")) if path.is_file()]


def entries(cache_dir: Path) -> list[Path]:
    return [path for path in (cache_dir / "objects").rglob("*") if path.is_file()]


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


@needs_mounts
def test_the_kernel_reads_more_of_the_mount_ahead_and_of_nothing_else(tmp_path: Path, source: Path) -> None:
    below = tmp_path.stat().st_dev
    before = of_bdi(below)
    if before is None or not os.access(BDI.format(os.major(below), os.minor(below)), os.W_OK):
        pytest.skip("needs root, a /sys that can be written, and a temporary directory that is not in memory")
    with mounted(tmp_path / "mnt", tmp_path / "cache", every(source)) as mount:
        device = mount.point.stat().st_dev
        give_up_at = time.monotonic() + 30
        while of_bdi(device) != kernel_read_ahead.KIB:
            assert time.monotonic() < give_up_at, of_bdi(device)
            time.sleep(0.02)
    assert of_bdi(below) == before


@needs_mounts
def test_the_kernel_may_ask_for_more_at_once_where_fusectl_is_mounted(tmp_path: Path, source: Path) -> None:
    """Where it is not, 12 reads that hang hold those of everybody."""
    with fusectl(), mounted(tmp_path / "mnt", tmp_path / "cache", every(source)) as mount:
        number = kernel_read_ahead.connection(mount.point.stat().st_dev)
        path = Path(kernel_read_ahead.OF_CONNECTION.format(number))
        wait_until(lambda: int(path.read_text()) == kernel_read_ahead.AT_ONCE, "it has been told")


def test_a_connection_is_called_as_the_kernel_writes_its_device() -> None:
    assert kernel_read_ahead.connection(os.makedev(0, 53)) == 53
    assert kernel_read_ahead.connection(os.makedev(0, 0x123)) == 0x100023


def of_bdi(device: int) -> int | None:
    try:
        return int(Path(BDI.format(os.major(device), os.minor(device))).read_text())
    except FileNotFoundError:
        return None


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


def test_tensorflow_reads_it_unmodified(tmp_path: Path, source: Path) -> None:
    import tensorflow as tf

    with mounted(tmp_path / "mnt", tmp_path / "cache", every(source)) as mount:

        def records(root: Path) -> list[bytes]:
            names = [str(path) for path in sorted(root.rglob("*.tfrecord"))]
            return list(tf.data.TFRecordDataset(names).as_numpy_iterator())

        assert records(mount.point) == records(source)


def test_a_stale_mount_is_recognised_and_taken_away(tmp_path: Path, source: Path) -> None:
    point = tmp_path / "mnt"
    with mounted(point, tmp_path / "cache", every(source)) as mount:
        mount.process.kill()
        mount.process.wait()
        found = mount_points.at(point)
        assert found is not None
        assert mount_points.trouble(found) == "stale"
        status = warm.run(command("status", tmp_path / "cache"), capture_output=True, text=True, check=True)
        assert f"the mount at {point} " in status.stdout
        assert "is stale" in status.stdout
        done = warm.run(command("unmount", point), capture_output=True, text=True, check=True)
        assert "is unmounted" in done.stdout
        assert mount_points.at(point) is None
        again = warm.run(
            command("mount", f"--cache_dir={tmp_path / 'cache'}", *every(source), point), capture_output=True, text=True
        )
        assert again.returncode == 0, again.stderr
        assert sums(point) == sums(source)
        warm.run(command("unmount", point), check=True, capture_output=True)
        mount.process.returncode = 0


def refused(*arguments: object) -> str:
    done = warm.run(command("mount", *arguments), capture_output=True, text=True, timeout=90)
    assert done.returncode == 1, done.stdout
    lines = done.stderr.splitlines()
    assert len(lines) == 1, lines
    return lines[0]


def test_what_cannot_be_mounted_on(tmp_path: Path, source: Path) -> None:
    cache = f"--cache_dir={tmp_path / 'cache'}"
    files = every(source)
    assert "no such directory" in refused(cache, files[0], tmp_path / "nowhere")
    assert "not empty" in refused(cache, files[0], source)
    assert "not a directory" in refused(cache, files[0], files[1])
    assert "which node?" in refused("--service=127.0.0.1:1", files[0], tmp_path)
    with mounted(tmp_path / "mnt", tmp_path / "cache", files) as mount:
        assert "mounted there already" in refused(cache, files[0], mount.point)
        with (mount.point / Path(files[0]).relative_to(source)).open("rb"):
            done = warm.run(command("unmount", mount.point), capture_output=True, text=True)
            assert done.returncode == 1
            assert "in use" in done.stderr
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "no data set is mounted there" in warm.run(command("unmount", empty), capture_output=True, text=True).stderr


def test_a_compressed_file_is_refused_with_the_reason(tmp_path: Path) -> None:
    paths = numbered.write(tmp_path / "data", 1, 10, 1000)
    packed = tmp_path / "data" / "packed.tfrecord.gz"
    packed.write_bytes(gzip.compress(paths[0].read_bytes()))
    point = tmp_path / "mnt"
    point.mkdir()
    try:
        assert "is a gzip file" in refused(f"--cache_dir={tmp_path / 'cache'}", "--format=tfrecord", packed, point)
    finally:
        end_daemons(tmp_path / "cache")


@pytest.mark.parametrize("flag", ["--memory=x", "--read_ahead=-1"])
def test_a_size_that_is_none_is_refused_before_anything_is_begun(tmp_path: Path, flag: str) -> None:
    """Its process in the background would refuse it, and the lines of its log that others have left would be told."""
    (tmp_path / "mnt").mkdir()
    (tmp_path / "data").touch()
    said = refused(f"--cache_dir={tmp_path / 'cache'}", flag, tmp_path / "data", tmp_path / "mnt")
    assert "not a size" in said and "log" not in said
    assert not (tmp_path / "cache").exists()


def test_any_files_with_default_flags(tmp_path: Path, seed: int) -> None:
    choose = random.Random(seed)
    images = tmp_path / "images"
    for kind in ("cats", "dogs"):
        (images / kind).mkdir(parents=True)
        for number in range(30):
            (images / kind / f"{number}.jpg").write_bytes(choose.randbytes(choose.randrange(1, 60_000)))
    (images / "model.safetensors").write_bytes(choose.randbytes(9 << 20))
    (images / "packed.tfrecord.gz").write_bytes(gzip.compress(tfrecord.frame(b"record")))
    (images / "empty").touch()
    cache_dir = tmp_path / "cache"
    with mounted(tmp_path / "mnt", cache_dir, [str(images)]) as mount:
        assert sums(mount.point) == sums(images)
        before = len(entries(cache_dir))
        with pytest.raises(errors.InvalidArgumentError, match="has format bytes"):
            tfquiver.dataset(digest_file(tmp_path, images), cache_dir=cache_dir)
    changed = bytearray((images / "model.safetensors").read_bytes())
    changed[5 << 20 : (5 << 20) + 10] = b""
    (images / "model.safetensors").write_bytes(changed)
    with mounted(tmp_path / "mnt", cache_dir, [str(images)]) as mount:
        assert sums(mount.point) == sums(images)
        assert len(entries(cache_dir)) - before <= 3, "what did not change is shared"


def test_names_that_begin_with_a_dot_are_shown_as_well(tmp_path: Path, source: Path) -> None:
    """Without them a copy of a tree is not whole: nobody can read a Zarr array of which `.zarray` is missing."""
    zarr = tmp_path / "array"
    for name in (".zgroup", "x/.zarray", "x/0.0", ".old/.y/0"):
        (zarr / name).parent.mkdir(parents=True, exist_ok=True)
        (zarr / name).write_text(name)
    with mounted(tmp_path / "mnt", tmp_path / "cache", [str(zarr)]) as mount:
        assert sums(mount.point) == sums(zarr)
    records = sums(source)
    for name in (".DS_Store", "a/.part-00000.tfrecord.Xq1"):  # what else lies among records is none
        (source / name).write_bytes(b"left behind by somebody")
    with mounted(tmp_path / "mnt", tmp_path / "cache", [str(source)]) as mount:
        assert sums(mount.point) == records


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


def test_names_that_lines_and_globs_would_take_for_something_else(tmp_path: Path) -> None:
    """Of the directory that is mounted, of the mount point, and of files."""
    source, point = tmp_path / "img [1-3]*", tmp_path / "m \\040 [t]"
    source.mkdir()
    names = {"plain.jpg", "two\nlines.jpg", "st*r.jpg", "[ab].jpg", "back\\slash.jpg", "unicode\u2028line.jpg"}
    for name in names:
        (source / name).write_bytes(name.encode())
    (tmp_path / "img 1x").mkdir()
    (tmp_path / "img 1x" / "other.jpg").write_bytes(b"of another directory")
    with mounted(point, tmp_path / "cache", [str(source)]) as mount:
        assert sums(mount.point) == sums(source)
        own = mount.point / ".tfquiver"
        assert set((own / "next0").read_bytes().decode().split("\0")) == {*names, ""}
        assert set((own / "next").read_bytes().decode().split("\n")) == {*(names - {"two\nlines.jpg"}), ""}
        assert str(point) in {one.path for one in mount_points.mounts()}


def test_pytorch_reads_it_unmodified(tmp_path: Path, seed: int) -> None:
    """File by file, in two worker processes; in the order of the guide's sampler."""
    data = pytest.importorskip("torch.utils.data", reason="pip install torch")
    choose = random.Random(seed)
    images = tmp_path / "images"
    for kind in ("cats", "dogs"):
        (images / kind).mkdir(parents=True)
        for number in range(40):
            (images / kind / f"{number}.jpg").write_bytes(choose.randbytes(choose.randrange(1, 30_000)))
    with mounted(tmp_path / "mnt", tmp_path / "cache", [str(images)]) as mount:
        paths = sorted(mount.point.rglob("*.jpg"))
        numbers = {str(path.relative_to(mount.point)): number for number, path in enumerate(paths)}
        order = [numbers[name] for name in (mount.point / ".tfquiver" / "next").read_text().splitlines()]
        assert sorted(order) == list(range(80))
        loader = data.DataLoader(
            Files([str(path) for path in paths]), sampler=order, batch_size=8, num_workers=2, collate_fn=list,
            multiprocessing_context="spawn",
        )  # fmt: skip
        read = [sample for batch in loader for sample in batch]
    assert [Path(path).relative_to(mount.point) for path, _ in read] == [
        paths[number].relative_to(mount.point) for number in order
    ]
    for path, content in read:
        assert content == (images / Path(path).relative_to(mount.point)).read_bytes()


class Files:
    """A map-style data set of whole files."""

    def __init__(self, paths: list[str]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, number: int) -> tuple[str, bytes]:
        return self.paths[number], Path(self.paths[number]).read_bytes()


def digest_file(tmp_path: Path, source: Path) -> Path:
    files = [str(path) for path in source.rglob("*") if path.is_file()]
    path = tmp_path / "images.tfqd"
    warm.run(command("digest", "build", "--format=bytes", "-o", path, *files), check=True, capture_output=True)
    return path


def test_who_waits_for_a_coordinator_is_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was silent for half a minute: only the mount's log said what it waited for."""
    monkeypatch.setattr(mount, "_COORDINATOR_S", 2.5)
    (tmp_path / "mnt").mkdir()
    where = ["--service", "localhost:1", "--cache_dir", str(tmp_path / "cache")]
    assert main(["mount", "data", str(tmp_path / "mnt"), *where]) == 1
    waiting, error = capsys.readouterr().err.splitlines()
    assert "coordinator localhost:1: nobody listens there (connection refused); waiting for it until" in waiting
    assert "does not answer within 2.5 s" in error
    assert not (tmp_path / "cache").exists()
