from __future__ import annotations

import threading
import time

import pytest

from tfquiver import errors
from tfquiver.service.node.reading_the_object_store.origins import MOST, MOST_IDLE, Origins
from tfquiver.stores.hanging_file_systems.mounts import Mounts, mount_of, points

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


class Links:
    """Symbolic links by path. What is under a path of `dead` is not answered until it is let go."""

    def __init__(self, links: dict[str, str], dead: str) -> None:
        self.links, self.dead = links, dead
        self.asked, self.let_go = list[str](), threading.Event()

    def __call__(self, path: str) -> str:
        self.asked.append(path)
        if self.dead and path.startswith(self.dead):
            self.let_go.wait(30)
        if path not in self.links:
            raise OSError
        return self.links[path]


@pytest.mark.parametrize(
    ("path", "mount"),
    [
        ("/mnt/nfs/a", "/mnt/nfs"),
        ("/data/link/a", "/mnt/nfs"),
        ("/data/up/a", "/"),
        ("/data/there/a", "/mnt/nfs"),
        ("/mnt/nfs/out/a", "/mnt/with blank"),
        ("/data/round/a", "/"),
        ("/data/./link/../../nfs2/x", "/"),
    ],
)
def test_links_are_followed_as_the_kernel_does(path: str, mount: str) -> None:
    links = {
        "/data/link": "/mnt/nfs/sub",
        "/data/up": "../mnt/nfs/..",
        "/data/there": "link",
        "/data/round": "round",
        "/mnt/nfs/out": "../with blank//x",
    }
    assert Mounts(Links(links, ""), lambda: points(MOUNTINFO)).of(f"{path}/file") == mount


def looking_up() -> int:
    """Threads that hang: those that have told their answer end by themselves."""
    give_up_at = time.monotonic() + 5
    while (count := sum(one.name == "look up a mount" for one in threading.enumerate())) > 1:
        if time.monotonic() > give_up_at:
            break
        time.sleep(0.01)
    return count


def test_a_dead_mount_holds_one_look_up_however_many_directories_are_asked_for() -> None:
    now = 0.0
    link_at = Links({"/link": "/mnt/nfs/a"}, "/mnt/nfs/")
    mounts = Mounts(link_at, lambda: points(MOUNTINFO), lambda: now, answers_s=0.2)
    try:
        assert mounts.of("/link/file") == "/mnt/nfs", "where it hangs is where the link leads"
        assert mounts.of("/link/another") == "/mnt/nfs"
        for minute in range(3):
            now = 61.0 * minute
            for number in range(100):
                assert mounts.of(f"/mnt/nfs/{minute}/{number}/file") == "/mnt/nfs"
                assert mounts.of(f"/home/{minute}/{number}/file") == "/"
            assert mounts.of("/link/file") == "/mnt/nfs"
        assert looking_up() == 1
        assert sum(path.startswith("/mnt/nfs/") for path in link_at.asked) == 1
    finally:
        link_at.let_go.set()
    now += 61.0
    assert mounts.known("/link/file") is None
    link_at.links["/mnt/nfs/a"] = "/home"
    assert mounts.of("/link/file") == "/", "it answers again"


@pytest.mark.slow
def test_those_who_ask_at_the_same_time_share_look_ups_and_there_are_only_so_many() -> None:
    link_at = Links({}, "/mnt/nfs/")
    mounts = Mounts(link_at, lambda: points(MOUNTINFO), answers_s=20.0)
    try:
        of_one = {id(mounts.look_up("/mnt/nfs/a/file")) for _ in range(100)}
        assert (len(of_one), looking_up()) == (1, 1)
        all_of_them = [mounts.look_up(f"/mnt/nfs/{number}/file") for number in range(300)]
        assert sum(one.name == "look up a mount" for one in threading.enumerate()) <= 256
        assert all_of_them[-1].ended.done()
        assert all_of_them[-1].mount == "/mnt/nfs", "from the text alone"
    finally:
        link_at.let_go.set()
    for look_up in all_of_them:
        look_up.ended.result(30)


def test_where_no_thread_can_be_started_the_text_of_the_path_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = Mounts(Links({"/link": "/mnt/nfs"}, ""), lambda: points(MOUNTINFO), answers_s=20.0)

    def full(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as none_left:
        none_left.setattr(threading.Thread, "start", full)
        assert mounts.of("/mnt/nfs/a/file") == "/mnt/nfs"
        assert mounts.of("/link/file") == "/"
    began_s = time.monotonic()
    assert mounts.of("/link/file") == "/mnt/nfs"
    assert time.monotonic() - began_s < 10, "there is no look-up that never began"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_look_up_that_fails_ends_all_the_same() -> None:
    works = False

    def mounted() -> list[str]:
        if not works:
            raise MemoryError
        return points(MOUNTINFO)

    now = 0.0
    mounts = Mounts(Links({}, ""), mounted, lambda: now, answers_s=20.0)
    mounts.look_up("/mnt/nfs/a/file").ended.result(10)
    works, now = True, 61.0
    assert mounts.of("/mnt/nfs/a/file") == "/mnt/nfs"


def test_what_is_longer_than_a_path_can_be_is_not_walked() -> None:
    links = Links({}, "")
    assert Mounts(links, lambda: points(MOUNTINFO)).of(f"/mnt/nfs/{'a/' * 16_000}file") == "/mnt/nfs"
    assert len(links.asked) <= 1


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
