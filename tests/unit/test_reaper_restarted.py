"""What a dispatcher knows of workers and tasks from the one before it, which was killed; what it says of those that may
hold up a trainer for nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.unfinished_epoch import KEYS, A, C, UnfinishedEpoch
from tfquiver.service.dispatcher.lost_workers_and_leftover_tasks.held_up import Held
from tfquiver.service.dispatcher.lost_workers_and_leftover_tasks.reaper import Reaper, Timeouts
from tfquiver.service.dispatcher.lost_workers_and_leftover_tasks.seen_file import FILE

BOOT_ID = Path("/proc/sys/kernel/random/boot_id").read_bytes().strip()


@pytest.fixture
def epoch(tmp_path: Path) -> UnfinishedEpoch:
    """Its only client waits for an element."""
    made = UnfinishedEpoch(tmp_path)
    made.comes(7)
    made.news.waiting = {KEYS[1]: 1}
    return made


def looks(epoch: UnfinishedEpoch, reaper: Reaper, seconds: int = 1) -> None:
    for _ in range(seconds):
        assert reaper.step() == {}
        epoch.clock.advance(1)


def killed_with_a(epoch: UnfinishedEpoch, away_s: int) -> Reaper:
    """The dispatcher, after some looks, and A; both are back at once."""
    looks(epoch, epoch.reaper(), 7)
    epoch.quiet()
    epoch.clock.advance(away_s)
    again = epoch.reaper()
    epoch.service.anew = {A}
    again.look()
    epoch.service.anew = set()
    return again


@pytest.mark.parametrize(("away_s", "least_s", "most_s"), [(5, 20, 25), (50, 60, 70), (500, 150, 152)])
def test_a_worker_that_is_killed_with_its_dispatcher_was_away_no_longer_than_that(
    epoch: UnfinishedEpoch, away_s: int, least_s: int, most_s: int
) -> None:
    """It was 150 s, however short the time was: the new dispatcher did not know since when."""
    assert least_s <= epoch.finished_after(killed_with_a(epoch, away_s)) <= most_s
    assert epoch.service.finished == [(A, [4000])]


@pytest.mark.parametrize("said", [
    b"", b"{", b"[]", b"7", b'{"boot_id": "another", "looked_s": 6.0, "outages": {}, "tasks": {}}', b"[" * 100_000,
    b'{"boot_id": "%s", "looked_s": -1%s, "outages": {}, "tasks": {}}' % (BOOT_ID, b"0" * 400), None,
])  # fmt: skip
def test_what_is_not_understood_or_of_another_start_of_the_machine_says_nothing(
    epoch: UnfinishedEpoch, tmp_path: Path, said: bytes | None
) -> None:
    looks(epoch, epoch.reaper())
    file = tmp_path / FILE
    now = json.loads(file.read_text()) | {"looked_s": 1e9}  # of the future
    file.write_bytes(json.dumps(now).encode() if said is None else said)
    epoch.quiet()
    epoch.service.anew = {A}
    again = epoch.reaper()
    again.look()
    epoch.service.anew = set()
    assert 150 <= epoch.finished_after(again) <= 152


def test_a_disk_that_takes_nothing_is_said_and_ends_nothing(
    epoch: UnfinishedEpoch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / f"{FILE}.new").mkdir()
    looks(epoch, epoch.reaper(), 3)
    assert [message for message in caplog.messages if FILE in message] == [f"{tmp_path / FILE}: Is a directory"]


def test_a_task_that_was_not_asked_for_is_finished_by_the_next_dispatcher(epoch: UnfinishedEpoch) -> None:
    """Its worker has it, and was never seen without it by that one: the epoch did not end."""
    reaper = epoch.reaper()
    looks(epoch, reaper, 3)
    epoch.quiet()
    epoch.service.dead = {A}
    looks(epoch, reaper, 2)
    epoch.service.dead, epoch.news.waiting = set(), {}
    looks(epoch, reaper, 200)
    assert 90 <= epoch.finished_after(epoch.reaper()) <= 130


def test_who_goes_again_before_it_was_asked_has_been_away_from_the_first_time_on(epoch: UnfinishedEpoch) -> None:
    """A client that tries again a minute after the first loss has not seen that it was back between."""
    reaper = epoch.reaper(Timeouts(refused_s=1000, worker_s=1000))
    looks(epoch, reaper, 2)
    epoch.quiet()
    epoch.service.dead = {A}
    looks(epoch, reaper, 60)
    epoch.service.dead = set()
    looks(epoch, reaper, 10)
    epoch.service.dead = {A}
    looks(epoch, reaper, 5)
    epoch.service.dead = set()
    assert 80 <= epoch.finished_after(reaper) <= 90


def test_who_is_back_for_long_and_goes_again_is_away_for_the_second_time(epoch: UnfinishedEpoch) -> None:
    reaper = epoch.reaper(Timeouts(refused_s=1000, worker_s=1000))
    epoch.service.dead = {A}
    looks(epoch, reaper, 60)
    epoch.service.dead = set()
    epoch.news.waiting = {}
    looks(epoch, reaper, 160)
    epoch.quiet()
    epoch.service.dead, epoch.news.waiting = {A}, {KEYS[1]: 1}
    looks(epoch, reaper, 5)
    epoch.service.dead = set()
    assert 20 <= epoch.finished_after(reaper) <= 22


def back(epoch: UnfinishedEpoch, waiting: int) -> Reaper:
    """A was lost at the end of the epoch, and is back for ten seconds."""
    reaper = epoch.reaper()
    looks(epoch, reaper, 2)
    epoch.quiet()
    epoch.service.dead = {A}
    looks(epoch, reaper)
    epoch.service.dead, epoch.news.waiting = set(), {KEYS[1]: waiting}
    looks(epoch, reaper, 12)
    return reaper


def test_whoever_may_be_held_up_for_nothing_is_told_for_how_long(
    epoch: UnfinishedEpoch, caplog: pytest.LogCaptureFixture
) -> None:
    """Minutes passed, and nothing said what for."""
    reaper = back(epoch, waiting=0)
    assert reaper.held == {A: Held(10.0, 290.0, False)}
    looks(epoch, reaper, 70)
    told = [message for message in caplog.messages if "nobody has asked" in message]
    assert told[0] == (
        "worker a:1 was lost at the end of an epoch, and has been back for 10 s: nobody has asked for its tasks [4000] "
        "since; its trainer may have had all that they have, and wait, or it pauses, and does not say (as with "
        "TensorFlow's own distribute); they are called finished in 290 s, if nobody does until then "
        "(--unread_task_timeout_ms)"
    )
    assert [message.partition(": nobody")[0].rpartition(" for ")[2] for message in told] == ["10 s", "70 s"]
    epoch.quiet()
    looks(epoch, reaper, 3)
    assert reaper.held == {}, "somebody has asked"


def test_where_the_trainer_says_that_it_waits_it_is_told_how_soon_it_goes_on(
    epoch: UnfinishedEpoch, caplog: pytest.LogCaptureFixture
) -> None:
    reaper = back(epoch, waiting=1)
    assert reaper.held == {A: Held(10.0, 10.0, True)}
    (told,) = [message for message in caplog.messages if "nobody has asked" in message]
    assert told.endswith(
        "since; its trainer waits, and may have had all that they have; they are called finished in 10 s, if nobody "
        "does until then"
    )
    assert epoch.finished_after(reaper) < 11
    epoch.ends(4000)
    reaper.step()
    assert reaper.held == {}


def test_nobody_is_held_up_while_another_worker_has_a_part(epoch: UnfinishedEpoch) -> None:
    epoch.opens(4002, C)
    assert back(epoch, waiting=0).held == {}
