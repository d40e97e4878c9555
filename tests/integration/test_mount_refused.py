"""What `tfquiver mount` and `unmount` refuse, wait for and take away, and what they say of it."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support import numbered, warm
from tests.support.daemons import end_daemons
from tests.support.mounted import command, every, mounted, sums, write_source
from tests.support.privileges import needs_fuse
from tfquiver import errors
from tfquiver.cli import mount
from tfquiver.cli.main import main
from tfquiver.mounting import mount_points

pytestmark = [needs_fuse]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_source(tmp_path / "data")


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


def test_a_mount_at_a_link_is_recognised_and_taken_away_by_it(tmp_path: Path, source: Path) -> None:
    """The kernel knows it by where the link leads to."""
    point, link = tmp_path / "disk" / "mnt", tmp_path / "link"
    point.mkdir(parents=True)
    link.symlink_to("disk/mnt")
    mounting = command("mount", f"--cache_dir={tmp_path / 'cache'}", *every(source), link)
    with mounted(point, tmp_path / "cache", every(source)) as mount:
        assert "mounted there already" in refused(*mounting[4:])
        mount.process.kill()
        mount.process.wait()
        again = warm.run(mounting, capture_output=True, text=True)
        assert again.returncode == 0, again.stderr
        assert sums(link) == sums(source)
        done = warm.run(command("unmount", link), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert mount_points.at(point) is None
        mount.process.returncode = 0


@pytest.mark.parametrize("below", [".", "sub/cache"])
def test_a_mount_does_not_cover_its_own_cache_directory(tmp_path: Path, source: Path, below: str) -> None:
    """It would look for its node in itself, and wait for ever, and with it whoever looks there."""
    point = tmp_path / "mnt"
    point.mkdir()
    flags = ["--foreground", f"--cache_dir={point / below}"]
    assert "the cache directory is in it" in refused(*flags, every(source)[0], point)
    assert not list(point.iterdir())
    (tmp_path / "link").symlink_to(point)
    assert "the cache directory is in it" in refused(*flags, every(source)[0], tmp_path / "link")


def test_of_two_that_mount_at_a_point_at_the_same_time_one_is_told(tmp_path: Path, source: Path) -> None:
    """Both have looked at it before the scan that they wait for."""
    point = tmp_path / "mnt"
    point.mkdir()
    mounting = command("mount", f"--cache_dir={tmp_path / 'cache'}", source, point)
    both = [warm.Popen(mounting, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    told = [one.communicate(timeout=90)[1] for one in both]
    try:
        assert sorted(one.returncode for one in both) == [0, 1], told
        assert "already" in "".join(told) or "just now" in "".join(told)
        assert sum(one.path == str(point) for one in mount_points.mounts()) == 1
        assert sums(point) == sums(source)
    finally:
        while mount_points.at(point) is not None:
            mount_points.unmount(point, lazy=True)
        end_daemons(tmp_path / "cache")


def test_what_umount_says_in_another_language_is_understood(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As util-linux's does where its translations are installed."""
    umount, real = tmp_path / "bin" / "umount", shutil.which("umount")
    umount.parent.mkdir()
    umount.write_text(
        f'#!/bin/sh\n[ "$LC_ALL" = C ] && exec {real} "$@"\n{real} "$@" 2>/dev/null && exit\n'
        'echo "umount: $1: Das Ziel wird gerade benutzt." >&2; exit 32\n'
    )
    umount.chmod(0o755)
    monkeypatch.setenv("PATH", f"{umount.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    with (
        mounted(tmp_path / "mnt", tmp_path / "cache", every(source)) as mount,
        (mount.point / "empty.tfrecord").open(),
        pytest.raises(errors.InUseError, match="in use: end what reads there"),
    ):
        mount_points.unmount(mount.point)


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


def refused(*arguments: object) -> str:
    done = warm.run(command("mount", *arguments), capture_output=True, text=True, timeout=90)
    assert done.returncode == 1, done.stdout
    lines = done.stderr.splitlines()
    assert len(lines) == 1, lines
    return lines[0]
