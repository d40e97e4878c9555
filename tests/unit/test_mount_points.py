"""What the kernel says of mounts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tfquiver import errors
from tfquiver.cli.status_tables_and_warnings import mounts_view
from tfquiver.mounting import mount_points

ROOT = Path(__file__).resolve().parents[2]
MOUNTINFO = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw
41 22 0:38 / /mnt/with\\040blank ro,nosuid,nodev - fuse.tfquiver train\\040set ro,user_id=0,group_id=0
42 22 0:39 / /mnt/other rw shared:3 master:1 - fuse.sshfs host:/ rw
43 22 0:40 / /mnt/x ro - fuse.tfquiver images ro
damaged line - fuse.tfquiver
"""


def test_those_of_data_sets_are_found() -> None:
    found = mount_points.mounts(MOUNTINFO)
    assert [(one.path, one.name) for one in found] == [("/mnt/with blank", "train set"), ("/mnt/x", "images")]


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ("/mnt/a\\011b", "/mnt/a\tb"),
        ("/mnt/a\\012b", "/mnt/a\nb"),
        ("/mnt/a\\134040b", "/mnt/a\\040b"),
        ("/mnt/a\rb", "/mnt/a\rb"),
        ("/mnt/a\x0cb\x85\u2028c", "/mnt/a\x0cb\x85\u2028c"),
        ("/mnt/\udcff", "/mnt/\udcff"),
    ],
)
def test_whatever_a_path_holds_it_is_found(written: str, path: str) -> None:
    line = f"41 22 0:38 / {written} ro - fuse.tfquiver train ro"
    assert mount_points.mounts(f"{line}\n{MOUNTINFO}")[0].path == path


def test_without_the_device_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mount_points, "DEVICE", tmp_path / "fuse")
    with pytest.raises(errors.NotFoundError, match="is missing: `modprobe fuse`, or in a container run it with"):
        mount_points.prepare(tmp_path, tmp_path.with_name("cache"))


def test_pages_and_ci_name_all_that_pyfuse3_is_built_from() -> None:
    # Without python3-dev gcc finds no Python.h: Debian's python3-venv does not bring it.
    assert {"gcc", "pkg-config", "libfuse3-dev", "python3-dev"} <= set(mount_points.INSTALL.split())
    assert mount_points.INSTALL in (ROOT / "docs" / "guide" / "files.md").read_text()
    ci = (ROOT / ".ci" / "run").read_text().split("packages=(")[1].partition(")")[0]
    assert {*mount_points.INSTALL.split()[2:]} - {"gcc"} <= set(ci.split())


def test_without_mtab_it_says_what_makes_one() -> None:
    said = "/usr/bin/fusermount3: failed to open /etc/mtab: No such file or directory"
    error = mount_points._hindered(Path("/mnt/x"), said)
    assert isinstance(error, errors.NotFoundError)
    assert str(error) == f"/mnt/x: {said}; as root: `ln -s /proc/self/mounts /etc/mtab`, then again"


def test_one_that_has_gone_while_files_were_scanned_is_named(tmp_path: Path) -> None:
    pytest.importorskip("pyfuse3")
    import trio

    from tfquiver.mounting import serving

    unused: Any = None
    with pytest.raises(errors.NotFoundError, match=f"mount point {tmp_path / 'gone'}: No such file"):
        trio.run(serving._serve, unused, tmp_path / "gone", *[unused] * 7)


def test_status_says_which_are_stale() -> None:
    told = [
        {"path": "/mnt/a", "dataset": "train", "trouble": ""},
        {"path": "/mnt/b", "dataset": "images", "trouble": "stale"},
        {"path": "/mnt/c", "dataset": "a_text", "trouble": "does not answer"},
    ]
    datasets = [{"name": name} for name in ("train", "images", "a text", "other")]
    assert mounts_view.lines(told, datasets) == ["mounted on this machine: train at /mnt/a"]
    stale, silent = mounts_view.problems(told, datasets)
    assert "tfquiver unmount /mnt/b" in stale
    assert silent == "the mount at /mnt/c (a_text): does not answer"


def test_of_another_clusters_mounts_a_status_says_nothing() -> None:
    told = [{"path": f"/mnt/{why}", "dataset": "train", "trouble": why} for why in ("", "stale")]
    assert (mounts_view.lines(told, [{"name": "images"}]), mounts_view.problems(told, [])) == ([], [])


def test_nothing_is_mounted_there(tmp_path: Path) -> None:
    with pytest.raises(errors.NotFoundError, match=r"no data set is mounted there(, nor elsewhere|; there are /)"):
        mount_points.unmount(tmp_path)
    assert mount_points.at(tmp_path) is None


def test_links_are_followed_to_where_the_kernel_mounts(tmp_path: Path) -> None:
    (tmp_path / "disk" / "deep").mkdir(parents=True)
    for name, leads_to in (("link", "disk"), ("two", "link/deep"), ("up", "disk/deep/.."), ("new", "disk/nothing")):
        (tmp_path / name).symlink_to(leads_to)
    for name, real in (("link", "disk"), ("two", "disk/deep"), ("up", "disk"), ("new", "disk/nothing")):
        assert mount_points.resolved(tmp_path / name) == tmp_path / real
    for name, leads_to in (("round", "again"), ("again", "round")):
        (tmp_path / name).symlink_to(leads_to)
    for path in (tmp_path / "round", tmp_path / "round" / "below"):
        with pytest.raises(errors.InvalidArgumentError, match="Too many levels"):
            mount_points.resolved(path)


def test_one_at_a_time_mounts_at_a_point(tmp_path: Path) -> None:
    with (
        mount_points.alone(tmp_path),
        pytest.raises(errors.AlreadyRunningError, match="another process mounts there just now"),
        mount_points.alone(tmp_path),
    ):
        pass
    with mount_points.alone(tmp_path):
        pass
