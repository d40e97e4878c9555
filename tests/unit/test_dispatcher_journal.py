"""The journal's reader and repair against what a real dispatcher wrote (tests/golden/dispatcher_journal)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import in_the_way
from tfquiver import errors
from tfquiver.scanning import tfrecord
from tfquiver.service.dispatcher.journal import journal_reader
from tfquiver.service.dispatcher.journal.journal_reader import (
    ClientCame,
    ClientLeft,
    CreateIteration,
    CreateJob,
    CreateTask,
    JournalFollower,
    SplitProduced,
    TaskOver,
)
from tfquiver.service.dispatcher.journal.journal_repair import CUT_DIR, repair
from tfquiver.tensorflow_dispatcher_and_worker_connections import proto_wire

GOLDEN = Path(__file__).parent.parent / "golden" / "dispatcher_journal"
DATA = GOLDEN.read_bytes()
ENDS = [0, *(end for end, _ in journal_reader.whole_records(DATA))]
FIRST, SECOND = "localhost:37245", "localhost:37323"
UPDATES = [
    CreateJob(5000, "1000"),
    CreateIteration(2000, 5000, 1),
    CreateTask(4000, 2000, FIRST),
    CreateTask(4001, 2000, SECOND),
    ClientCame(3000, 2000),
    *[SplitProduced(2000, 0, False)] * 20,
    SplitProduced(2000, 0, True),
    TaskOver(4001, True),
    TaskOver(4000, True),
    CreateJob(5001, "1001"),
    CreateIteration(2001, 5001, 1),
    CreateTask(4002, 2001, FIRST),
    CreateTask(4003, 2001, SECOND),
    ClientCame(3001, 2001),
    ClientLeft(3000),
]


def journal(work_dir: Path, *files: bytes) -> Path:
    directory = work_dir / journal_reader.JOURNAL_DIR
    directory.mkdir(parents=True)
    for number, data in enumerate(files):
        (directory / f"journal_{number}").write_bytes(data)
    return directory


def test_reads_what_a_real_dispatcher_wrote(tmp_path: Path) -> None:
    assert ENDS[-1] == len(DATA)
    assert list(JournalFollower(journal(tmp_path, DATA)).poll()) == UPDATES


def test_follows_a_growing_journal_over_files_and_torn_tails(tmp_path: Path) -> None:
    directory = journal(tmp_path, b"")
    follower = JournalFollower(directory)
    assert not list(follower.poll())
    seen = []
    for stop in (100, 300, 900, len(DATA)):
        (directory / "journal_0").write_bytes(DATA[:stop])
        seen += follower.poll()
    assert seen == UPDATES
    (directory / "journal_1").write_bytes(DATA)
    assert list(follower.poll()) == UPDATES
    assert not list(follower.poll())


def test_no_journal_is_no_update(tmp_path: Path) -> None:
    assert not list(JournalFollower(tmp_path / "nothing").poll())
    assert repair(tmp_path) == []


def test_what_fails_between_two_updates_loses_neither(tmp_path: Path) -> None:
    """A file that cannot be opened for once, say, as where this process has too many open."""
    directory = journal(tmp_path, DATA[: ENDS[4]])
    (directory / "journal_1").mkdir()
    follower, seen = JournalFollower(directory), []
    with pytest.raises(IsADirectoryError):
        for update in follower.poll():
            seen.append(update)
    (directory / "journal_1").rmdir()
    (directory / "journal_1").write_bytes(DATA[ENDS[4] :])
    assert [*seen, *follower.poll()] == UPDATES


def test_a_whole_record_of_garbage_does_not_end_the_watch(tmp_path: Path) -> None:
    garbage = tfrecord.frame(b"\xff" * 20)
    with pytest.raises(errors.ProtocolError):
        journal_reader.decode(b"\xff" * 20)
    assert list(JournalFollower(journal(tmp_path, DATA[: ENDS[4]] + garbage + DATA[ENDS[4] :])).poll()) == UPDATES


TORN_AT = sorted({end + more for end in ENDS[:-1] for more in (0, 1, 7, 8, 11, 12, 13, 15, 16)})


@pytest.mark.parametrize("length", [*TORN_AT, len(DATA) - 1, len(DATA)])
def test_every_torn_tail_is_cut_to_the_last_whole_record(tmp_path: Path, length: int) -> None:
    path = journal(tmp_path, DATA[:length]) / "journal_0"
    cuts = repair(tmp_path)
    expected = max(end for end in ENDS if end <= length)
    assert path.read_bytes() == DATA[:expected]
    assert bool(cuts) == (expected != length)
    for cut in cuts:
        assert (cut.offset, cut.bytes_cut) == (expected, length - expected)
        assert cut.copy.read_bytes() == DATA[expected:length]
        assert cut.copy.parent == tmp_path / CUT_DIR
    assert repair(tmp_path) == []


@pytest.mark.parametrize("what", in_the_way.KINDS)
@pytest.mark.parametrize("name", [f"{journal_reader.JOURNAL_DIR}/journal_1", "datasets/1000"])
def test_what_is_no_file_is_refused_at_once_by_its_name(tmp_path: Path, name: str, what: str) -> None:
    """The dispatcher that reads a pipe waits for who writes it; a directory was a traceback."""
    journal(tmp_path, DATA)
    (tmp_path / "datasets").mkdir()
    in_the_way.put(tmp_path / name, what)
    with pytest.raises(errors.InvalidArgumentError, match=f"^{tmp_path / name}: {what} is there, and no file"):
        repair(tmp_path)


def test_a_file_of_copies_that_lost_some_gets_others(tmp_path: Path) -> None:
    journal(tmp_path, DATA[:-1])
    kept = tmp_path / CUT_DIR / f"journal_0.{ENDS[-2]}.1"
    kept.parent.mkdir()
    kept.write_bytes(b"of before")
    (cut,) = repair(tmp_path)
    assert (kept.read_bytes(), cut.copy.read_bytes()) == (b"of before", DATA[ENDS[-2] : -1])


def test_a_tail_of_zeros_is_cut(tmp_path: Path) -> None:
    path = journal(tmp_path, DATA + bytes(5000)) / "journal_0"
    (cut,) = repair(tmp_path)
    assert (cut.offset, cut.bytes_cut, path.read_bytes()) == (len(DATA), 5000, DATA)


def test_two_repairs_keep_both_tails(tmp_path: Path) -> None:
    path = journal(tmp_path, DATA[:-3]) / "journal_0"
    (first,) = repair(tmp_path)
    path.write_bytes(DATA[:-5])
    (second,) = repair(tmp_path)
    assert (len(first.copy.read_bytes()), len(second.copy.read_bytes())) == (
        len(DATA) - ENDS[-2] - 3,
        len(DATA) - ENDS[-2] - 5,
    )


@pytest.mark.parametrize("at", [0, 8, 12, ENDS[3] + 13, ENDS[-2] - 1])
def test_damage_before_whole_records_is_refused(tmp_path: Path, at: int) -> None:
    damaged = bytearray(DATA)
    damaged[at] ^= 0x40
    path = journal(tmp_path, bytes(damaged)) / "journal_0"
    with pytest.raises(errors.DataLossError, match=f"journal_0: damaged at offset {max(e for e in ENDS if e <= at)}"):
        repair(tmp_path)
    assert path.read_bytes() == damaged


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    directory = journal(tmp_path, DATA, DATA, DATA)
    (directory / "journal_1").unlink()
    with pytest.raises(errors.DataLossError, match="journal_1 is missing"):
        repair(tmp_path)


def test_repair_leaves_whole_files_alone(tmp_path: Path) -> None:
    directory = journal(tmp_path, DATA, DATA[: ENDS[4] + 3], b"")
    assert [cut.path.name for cut in repair(tmp_path)] == ["journal_1"]
    assert (directory / "journal_0").read_bytes() == DATA
    shutil.rmtree(directory)


@given(st.binary(max_size=200))
def test_garbage_is_a_typed_error_or_nothing(data: bytes) -> None:
    list(journal_reader.whole_records(data))
    try:
        journal_reader.decode(data)
    except errors.ProtocolError as error:
        assert str(error)


@given(st.integers(1, 2**29 - 1), st.integers(0, 2**64 - 1), st.binary(max_size=300))
def test_wire_round_trip(number: int, value: int, raw: bytes) -> None:
    message = proto_wire.integer(number, value) + proto_wire.text(number, raw)
    assert list(proto_wire.fields(message)) == [(number, value), (number, raw)]
