"""Files that are no TFRecords, and names that few expect, in a mount as in their source."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest

import tfquiver
from tests.support import warm
from tests.support.mounted import command, entries, mounted, sums, write_images, write_source
from tests.support.privileges import needs_fuse
from tfquiver import errors
from tfquiver.mounting import mount_points
from tfquiver.scanning import tfrecord

pytestmark = [needs_fuse]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_source(tmp_path / "data")


def test_any_files_with_default_flags(tmp_path: Path, seed: int) -> None:
    choose = random.Random(seed)
    images = tmp_path / "images"
    write_images(images, choose, 30, 60_000)
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


def digest_file(tmp_path: Path, source: Path) -> Path:
    files = [str(path) for path in source.rglob("*") if path.is_file()]
    path = tmp_path / "images.tfqd"
    warm.run(command("digest", "build", "--format=bytes", "-o", path, *files), check=True, capture_output=True)
    return path
