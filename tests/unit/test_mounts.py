from __future__ import annotations

import threading

import pytest

from tfquiver import errors
from tfquiver.service.node.origin.origins import MOST, MOST_IDLE, Origins
from tfquiver.stores.mounts import Mounts, mount_of, points

MOUNTINFO = """\
22 28 0:20 / /sys rw shared:7 - sysfs sysfs rw
28 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw
40 28 0:44 / /mnt/nfs rw shared:9 - nfs4 host:/a rw
41 28 0:45 / /mnt/with\\040blank rw - nfs4 host:/b rw
"""


@pytest.mark.parametrize(
    ("path", "mount"),
    [
        ("/mnt/nfs/a/b", "/mnt/nfs"),
        ("/mnt/nfs", "/mnt/nfs"),
        ("/mnt/nfs2/a", "/"),
        ("/mnt/with blank/a", "/mnt/with blank"),
        ("/home/x", "/"),
    ],
)
def test_the_innermost_mount_counts(path: str, mount: str) -> None:
    assert mount_of(path, points(MOUNTINFO)) == mount


def test_where_no_mounts_are_known_all_is_one() -> None:
    assert mount_of("/mnt/nfs/a", points("")) == "/"


def test_a_directory_that_does_not_answer_counts_as_a_mount_and_is_asked_again_later() -> None:
    let_go, asked, now = threading.Event(), list[str](), 0.0

    def real(directory: str) -> str:
        asked.append(directory)
        if directory == "/link/dead":
            let_go.wait(30)
        return "/"

    mounts = Mounts(real, lambda: now, answers_s=0.1)
    assert mounts.of("/link/dead/file") == "/link/dead"
    assert mounts.of("/link/dead/another") == "/link/dead"
    assert mounts.of("/link/good/file") == "/"
    assert asked == ["/link/dead", "/link/good"]
    let_go.set()
    now = 61.0
    assert mounts.known("/link/dead/file") is None
    assert mounts.of("/link/dead/file") == "/"


class Kept:
    def __init__(self, name: str) -> None:
        self.name, self.idle, self.forgotten = name, True, False

    def forget(self) -> None:
        self.forgotten = True


def test_of_idle_origins_the_last_used_are_kept_and_busy_ones_all() -> None:
    made: list[Kept] = []

    def make(name: str) -> Kept:
        made.append(Kept(name))
        return made[-1]

    origins = Origins(make)
    origins.at("busy").idle = False
    for number in range(MOST_IDLE):
        origins.at(f"{number}")
    assert origins.at("0") is made[1]
    origins.at("one more")
    assert [kept.name for kept in made if kept.forgotten] == ["1"]
    assert origins.at("busy") is made[0]


def test_there_are_no_more_busy_ones_than_may_be() -> None:
    origins = Origins(Kept)
    for number in range(MOST):
        origins.at(f"gs://{number}").idle = False
    with pytest.raises(errors.UnavailableError, match=f"gs://new: {MOST} other buckets"):
        origins.at("gs://new")
    origins.at("gs://7").idle = True
    assert origins.at("gs://new").name == "gs://new"
