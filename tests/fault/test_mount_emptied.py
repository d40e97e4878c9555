"""The cache directory of a mount is emptied, with the data sets that its own coordinator knew: the mount goes on. Where
somebody has deleted the data set it does not."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

from tests.support import numbered, warm
from tests.support.cluster import wait_until
from tests.support.daemons import daemons
from tests.support.mounted import command, entries, mounted, sums
from tests.support.privileges import needs_fuse, needs_mounts

pytestmark = [needs_fuse, needs_mounts]


@pytest.mark.parametrize("format", ["bytes", "tfrecord"])
def test_what_is_mounted_is_registered_again(tmp_path: Path, format: str) -> None:
    source, cache_dir = tmp_path / "data", tmp_path / "cache"
    numbered.write(source, 2, 1500, 1000)
    with mounted(tmp_path / "mnt", cache_dir, [str(source)], f"--format={format}") as mount:
        expected = sums(source)  # nothing is open in the mount, which would read on in what was deleted
        [node] = daemons(cache_dir)
        mount.process.send_signal(signal.SIGSTOP)  # it would start another node at once
        node.send_signal(signal.SIGKILL)
        node.wait(30)
        for path in cache_dir.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        mount.process.send_signal(signal.SIGCONT)
        assert sums(mount.point) == expected
        mount.logged("did not know it any more")
        listed = warm.run(command("dataset", "list", cache_dir), capture_output=True, text=True)
        assert listed.returncode == 0, listed.stderr
        assert "data" in listed.stdout


def test_what_was_deleted_is_not_registered_again(tmp_path: Path) -> None:
    source, cache_dir = tmp_path / "data", tmp_path / "cache"
    numbered.write(source, 2, 1500, 1000)

    def dataset(*what: str) -> str:
        done = warm.run(command("dataset", *what, "--service", cache_dir), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return str(done.stdout)

    with mounted(tmp_path / "mnt", cache_dir, [str(source)]) as mount:
        dataset("delete", "data", "--force")
        wait_until(lambda: not entries(cache_dir), "the node knows it, too")
        for path in mount.point.iterdir():
            with pytest.raises(OSError, match="Input/output error"):
                path.read_bytes()
        mount.logged("is registered")
        assert "no data set yet" in dataset("list")
