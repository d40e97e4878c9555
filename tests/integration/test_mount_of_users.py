"""Mounts of a user who is not root, who has them made by fusermount3: they work, or it is said at once what to do."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import warm
from tests.support.daemons import end_daemons
from tests.support.mounted import command, sums
from tests.support.privileges import needs_fuse
from tfquiver import errors
from tfquiver.mounting import mount_points

_USER = 65534
# Python and this package may lie where only root may read: of root's privileges the user has this one.
_READS = "+dac_read_search"
_AS_USER = ["setpriv", f"--reuid={_USER}", f"--regid={_USER}", "--clear-groups", f"--inh-caps={_READS}",
            f"--ambient-caps={_READS}"]  # fmt: skip
_CANNOT = (
    "run the tests as root: they become another user" if os.geteuid() != 0
    else "" if shutil.which("setpriv") and shutil.which("fusermount3")
    else "setpriv or fusermount3 is missing: apt-get install util-linux fuse3"
)  # fmt: skip
pytestmark = [needs_fuse, pytest.mark.skipif(bool(_CANNOT), reason=_CANNOT or "never said")]


@pytest.fixture
def home() -> Iterator[Path]:
    """Theirs, and on a way that they may go."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chown(folder, _USER, _USER)
        yield Path(folder)
        for mount in mount_points.mounts():
            if mount.path.startswith(folder):
                mount_points.unmount(mount.path, lazy=True)
        end_daemons(Path(folder) / "cache")


@pytest.fixture
def point(home: Path) -> Path:
    point = home / "mnt"
    point.mkdir()
    os.chown(point, _USER, _USER)
    return point


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    for number in range(3):
        (tmp_path / "data" / f"{number}").write_bytes(os.urandom(300_000))
    return tmp_path / "data"


def as_user(home: Path, *words: object) -> subprocess.CompletedProcess[str]:
    return warm.run(
        [*_AS_USER, *command(*words)], capture_output=True, text=True, timeout=120, env=os.environ | {"HOME": str(home)}
    )


def mounts(home: Path, source: Path, point: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    return as_user(home, "mount", f"--cache_dir={home / 'cache'}", "--format=bytes", *flags, f"{source}/*", point)


def test_it_is_mounted_and_taken_away(home: Path, source: Path, point: Path) -> None:
    for _ in range(2):
        done = mounts(home, source, point)
        assert done.returncode == 0, done.stderr
        looks = subprocess.run(
            [*_AS_USER, "sha256sum", *(str(point / name) for name in sums(source))], capture_output=True, text=True
        )
        assert {Path(line.split()[1]).name: line.split()[0] for line in looks.stdout.splitlines()} == sums(source)
        with pytest.raises(PermissionError):
            list(point.iterdir())  # root is another user, too
        done = as_user(home, "unmount", point)
        assert done.returncode == 0, done.stderr
        assert mount_points.at(point) is None


def test_what_is_not_allowed_is_told_before_anything_is_scanned(home: Path, source: Path, point: Path) -> None:
    conf = mount_points.FUSE_CONF
    if not conf.exists() or "\nuser_allow_other" in f"\n{conf.read_text()}":
        pytest.skip(f"{conf} lets everybody have --allow_other, or is not there")
    roots = home / "roots"
    roots.mkdir()
    for done, said in (
        (mounts(home, source, point, "--allow_other"), "`echo user_allow_other >> /etc/fuse.conf`"),
        (mounts(home, source, roots), f"mount point {roots}: this user may not write there"),
    ):
        assert done.returncode == 1
        (line,) = done.stderr.splitlines()
        assert said in line
    assert not (home / "cache" / "node.json").exists()


def test_a_mount_that_is_refused_all_the_same_is_told_in_a_line(tmp_path: Path, source: Path) -> None:
    """As in a container without CAP_SYS_ADMIN: the mount's process is told, when all is scanned."""
    (tmp_path / "mnt").mkdir()
    try:
        done = warm.run(
            ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin",
             *command("mount", f"--cache_dir={tmp_path / 'cache'}", "--format=bytes", f"{source}/*", tmp_path / "mnt")],
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert done.returncode == 1
        (line,) = done.stderr.splitlines()
        assert line.startswith(f"tfquiver: mount point {tmp_path / 'mnt'}: fuse_session_mount failed"), line
    finally:
        end_daemons(tmp_path / "cache")


def test_nothing_is_mounted_when_the_command_that_asked_is_gone(tmp_path: Path, source: Path) -> None:
    """Killed while its process began: whoever gives the command again would find a mount there that nobody knows of.
    That it is not even tried is seen where it could not."""
    (tmp_path / "mnt").mkdir()
    mount = command("mount", "--foreground", "--tell", f"--cache_dir={tmp_path / 'cache'}", "--format=bytes",
                    f"{source}/*", tmp_path / "mnt")  # fmt: skip
    unable = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]
    try:
        for _ in range(2):  # scanned on the way, and known already: then there is nothing else to be told
            reads, writes = os.pipe()
            os.close(reads)
            done = warm.run([*unable, *mount], stdout=writes, stderr=subprocess.PIPE, text=True, timeout=120)
            os.close(writes)
            assert done.returncode
            assert "the command that started this was stopped" in done.stderr
            assert "fuse_session_mount" not in done.stderr
    finally:
        end_daemons(tmp_path / "cache")


def test_the_rule_is_read_as_fusermount_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conf = tmp_path / "fuse.conf"
    monkeypatch.setattr(mount_points, "FUSE_CONF", conf)
    mount_points._check_helper(True)  # it may be elsewhere
    for text, allowed in (("# user_allow_other\n", False), ("mount_max = 10\n user_allow_other  # yes\n", True)):
        conf.write_text(text)
        if allowed:
            mount_points._check_helper(True)
        else:
            with pytest.raises(errors.PermissionError_, match="--allow_other"):
                mount_points._check_helper(True)
