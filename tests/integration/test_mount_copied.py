"""A mount's tree copied whole by the tools that people have for it, and read by other users of the machine."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.mounted import Mounted, mounted, sums
from tests.support.privileges import needs_fuse

pytestmark = needs_fuse
TIMES_NS = {"a/1.bin": 1_234_567_890_123_456_789, "a/b/2.bin": 0, "3.bin": 1_700_000_000_000_000_001}
_USER = 65534


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "data"
    for number, (name, time_ns) in enumerate(TIMES_NS.items()):
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(1 + 300_000 * number))
        os.utime(path, ns=(time_ns, time_ns))
    (tree / "a" / "link.bin").symlink_to("1.bin")
    (tree / "a" / "up").symlink_to("..")
    (tree / "empty").touch(mode=0o600)
    return tree


@pytest.fixture
def other() -> Iterator[Path]:
    """Where all may go, and that user may write."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chown(folder, _USER, _USER)
        yield Path(folder)


@pytest.fixture
def mount(tmp_path: Path, tree: Path, other: Path) -> Iterator[Mounted]:
    with mounted(other / "mnt", tmp_path / "cache", [str(tree)], "--allow_other") as mount:
        yield mount


COPIES = [
    "cp -a {source}/. {to}",
    "cp -a --reflink=auto --sparse=always {source}/. {to}",
    "tar -C {source} --format=posix -cf {to}.tar . && mkdir {to} && tar -C {to} -xf {to}.tar",
    "rsync -aX {source}/ {to}/",
    "tar -C {source} --xattrs --acls --format=posix -cf {to}.tar . && mkdir {to} && tar -C {to} --xattrs -xf {to}.tar",
]


@pytest.mark.parametrize("copies", COPIES, ids=lambda line: line.split()[0])
def test_a_copy_is_the_tree(tmp_path: Path, tree: Path, mount: Mounted, copies: str) -> None:
    if not shutil.which(tool := copies.split()[0]):
        pytest.skip(f"{tool} is missing: apt-get install {tool}")
    to = tmp_path / "copy"
    done = subprocess.run(copies.format(source=mount.point, to=to), shell=True, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert sums(to) == {name: sums(tree)[name] for name in (*TIMES_NS, "a/link.bin", "empty")}
    for name, time_ns in TIMES_NS.items():
        found = (to / name).lstat()
        assert found.st_mtime_ns == time_ns
        assert (stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid) == (0o644, os.getuid(), os.getgid())
    for folder in (to, to / "a", to / "a" / "b"):
        assert stat.S_IMODE(folder.lstat().st_mode) == 0o755, "0555 as they were, `rm -r` of a copy was refused"
    assert not (to / ".tfquiver").exists()


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv (util-linux)")
def test_another_user_reads_and_copies_it(tree: Path, mount: Mounted, other: Path) -> None:
    become = ["setpriv", f"--reuid={_USER}", f"--regid={_USER}", "--clear-groups", "--inh-caps=-all"]

    def does(line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*become, "sh", "-c", line], capture_output=True, text=True)

    done = does(f"cp -a {mount.point}/. {other}/copy")
    assert (done.returncode, done.stderr) == (0, "")
    expected = {name: digest for name, digest in sums(tree).items() if not name.startswith("a/up")}
    assert sums(other / "copy") == expected
    removed = does(f"rm -r {other}/copy")
    assert (removed.returncode, removed.stderr) == (0, "")
    for line, said in (
        (f"touch {mount.point}/new", "Permission denied"),
        (f"rm -f {mount.point}/3.bin", "Permission denied"),
        (f"echo x >> {mount.point}/3.bin", "Permission denied"),
        (f"{mount.point}/3.bin", "Permission denied"),
    ):
        refused = does(line)
        assert refused.returncode, line
        assert said in refused.stderr or "Read-only file system" in refused.stderr
