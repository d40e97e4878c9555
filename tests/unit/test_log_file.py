"""The commit log on disk: torn anywhere it starts; damaged before its end it is refused; full it stays whole."""

from __future__ import annotations

import errno
import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import in_the_way
from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import commit_log_pb2 as log_pb2
from tfquiver.proto.tfquiver.v1.commit_log_pb2 import CommitRecord
from tfquiver.service.coordinator.commit_log import log_content, log_file
from tfquiver.service.coordinator.commit_log.log_file import LogFile, framed, header, parse


def acked(number: int) -> CommitRecord:
    return CommitRecord(shards_acked=log_pb2.ShardsAcked(session_id=f"s{number}", shards=range(number)))


RECORDS = [acked(number) for number in range(1, 6)]
LOG = header() + b"".join(map(framed, RECORDS))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "commit.log"


@given(
    st.lists(
        st.binary(max_size=100).map(lambda data: CommitRecord(shards_acked=log_pb2.ShardsAcked(session_id=data.hex())))
    )
)
def test_what_is_framed_is_read_again(records: list[CommitRecord]) -> None:
    data = header() + b"".join(map(framed, records))
    assert parse(data, "log") == (records, len(data))


def test_a_log_torn_at_any_byte_starts_with_what_is_whole(path: Path) -> None:
    ends = [len(header())]
    for record in RECORDS:
        ends.append(ends[-1] + len(framed(record)))
    for size in range(len(LOG)):
        path.write_bytes(LOG[:size])
        log = LogFile(path)
        whole = sum(end <= size for end in ends) - 1
        assert log.records == RECORDS[: max(whole, 0)]
        log.append(framed(acked(9)))
        log.close()
        again = LogFile(path)
        assert again.records == [*RECORDS[: max(whole, 0)], acked(9)]
        again.close()
        if size not in ends and size:
            torn = path.with_suffix(f".torn-{ends[whole] if whole >= 0 else 0}")
            assert LOG[:size].endswith(torn.read_bytes())


@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_every_damaged_byte_before_the_last_record_is_named(path: Path, mask: int) -> None:
    ends = [len(header())]
    for record in RECORDS:
        ends.append(ends[-1] + len(framed(record)))
    for at in range(ends[-2]):
        data = bytearray(LOG)
        data[at] ^= mask
        path.write_bytes(data)
        with pytest.raises(errors.DataLossError) as caught:
            LogFile(path)
        offset = max((end for end in ends if end <= at), default=0)
        assert str(caught.value).startswith(f"{path}: offset {offset}: "), at
        assert path.read_bytes() == data, "a log that is refused is left alone"


def test_a_hole_in_the_log_is_damage(path: Path) -> None:
    start = len(header()) + len(framed(RECORDS[0]))
    path.write_bytes(LOG[:start] + bytes(100) + LOG[start:])
    with pytest.raises(errors.DataLossError, match=f"offset {start}: .*at offset {start + 100}: .*--size={start} "):
        LogFile(path)
    os.truncate(path, start)
    log = LogFile(path)
    assert log.records == RECORDS[:1]
    log.close()


def of_length(payload_bytes: int) -> CommitRecord:
    made = CommitRecord(shards_acked=log_pb2.ShardsAcked(session_id="s" * (payload_bytes - 20)))
    made.shards_acked.session_id += "s" * (payload_bytes - made.ByteSize())
    assert made.ByteSize() == payload_bytes
    return made


@pytest.mark.parametrize("is_hole", [True, False])
@pytest.mark.slow
def test_gigabytes_of_zeros_at_the_end_are_cut_within_seconds(
    path: Path, monkeypatch: pytest.MonkeyPatch, is_hole: bool
) -> None:
    """As some file systems leave them after a crash. Byte by byte it took hours, and as much memory."""
    if not is_hole:  # or the file system cannot say it
        monkeypatch.setattr(log_content, "_data_from", lambda file, offset, size_bytes: offset)
    path.write_bytes(LOG)
    os.truncate(path, len(LOG) + (4 << 30) + 5)
    began_s = time.process_time()
    log = LogFile(path)
    assert time.process_time() - began_s < 120  # some machines take 16 s to read 4 GiB of a hole
    assert (log.records, path.stat().st_size) == (RECORDS, len(LOG))
    assert list(path.parent.iterdir()) == [path], "zeros are kept nowhere"
    log.append(framed(acked(9)))
    log.close()
    assert parse(path.read_bytes(), "log")[0] == [*RECORDS, acked(9)]


@pytest.mark.parametrize("zeros", [1, 7, (1 << 18) - 9, 1 << 18, (1 << 20) - 3, 1 << 20, 5 << 30])
@pytest.mark.parametrize("record", [acked(9), of_length(512), of_length(1 << 16)])
def test_a_whole_record_behind_zeros_is_named(path: Path, zeros: int, record: CommitRecord) -> None:
    """Its own length may begin with zeros."""
    path.write_bytes(LOG)
    os.truncate(path, len(LOG) + zeros)
    with path.open("ab") as file:
        file.write(framed(record) + bytes(100))
    at = len(LOG) + zeros
    with pytest.raises(errors.DataLossError, match=f"offset {len(LOG)}: damaged, and whole .* at offset {at}: "):
        LogFile(path)
    assert path.stat().st_size > at, "a log that is refused is left alone"


def test_what_stands_behind_zeros_and_is_no_record_is_kept_aside_without_them(path: Path) -> None:
    torn = framed(acked(9))[:-1]
    path.write_bytes(LOG)
    os.truncate(path, len(LOG) + (5 << 30))
    with path.open("ab") as file:
        file.write(torn)
    os.truncate(path, len(LOG) + (10 << 30))
    log = LogFile(path)
    assert (log.records, log.size_bytes) == (RECORDS, len(LOG))
    log.close()
    aside = path.with_suffix(f".torn-{len(LOG)}").read_bytes()
    assert aside.startswith(torn) and len(aside) <= len(torn) + (1 << 20)


@given(
    st.lists(
        st.one_of(st.binary(max_size=20), st.integers(0, 40).map(bytes), st.sampled_from(list(map(framed, RECORDS))))
    )
)
def test_a_record_behind_damage_is_found_wherever_it_begins(pieces: list[bytes]) -> None:
    behind = header() + b"\x01" + b"".join(pieces)
    first = next(
        (
            at
            for at in range(len(header()) + 1, len(behind))
            if any(behind.startswith(framed(one), at) for one in RECORDS)
        ),
        None,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_file, "_SEARCHED_AT_ONCE", 7)
        patch.setattr(log_content, "_WINDOW_BYTES", 5)
        if first is None:
            assert parse(behind, "log") == ([], len(header()))
        else:
            with pytest.raises(errors.DataLossError, match=f"follow at offset {first}:"):
                parse(behind, "log")


def test_a_damaged_last_record_is_cut_and_kept_aside(path: Path) -> None:
    data = bytearray(LOG)
    data[-1] ^= 1
    path.write_bytes(data)
    log = LogFile(path)
    assert log.records == RECORDS[:-1]
    log.close()
    [aside] = path.parent.glob("*.torn-*")
    assert aside.read_bytes() == data[-len(framed(RECORDS[-1])) :]


def test_a_log_of_a_later_version_is_refused(path: Path) -> None:
    path.write_bytes(header(2))
    with pytest.raises(errors.DataLossError, match="offset 4: a log of version 2; this program reads 1"):
        LogFile(path)


def test_a_huge_file_that_is_no_log_is_not_read(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 42)
    with pytest.raises(errors.DataLossError, match="offset 0: not a commit log"):
        LogFile(path)


def test_another_file_is_no_log(path: Path) -> None:
    path.write_bytes(b"something else entirely")
    with pytest.raises(errors.DataLossError, match="not a commit log"):
        LogFile(path)


@pytest.mark.parametrize("what", in_the_way.KINDS)
def test_what_is_no_file_is_refused_at_once_by_its_name(path: Path, what: str) -> None:
    """A coordinator that read a pipe waited for who writes it, and heard no signal."""
    in_the_way.put(path, what)
    with pytest.raises(errors.InvalidArgumentError, match=f"^{path}: {what} is there, and no file: move it away$"):
        LogFile(path)


def test_a_pipe_where_a_torn_end_is_kept_holds_up_nobody(path: Path) -> None:
    path.write_bytes(LOG[:-1])
    aside = path.with_suffix(f".torn-{len(LOG) - len(framed(RECORDS[-1]))}")
    os.mkfifo(aside)
    LogFile(path).close()
    assert LOG[:-1].endswith(aside.read_bytes())


def test_a_length_is_believed_only_up_to_the_limit(path: Path) -> None:
    path.write_bytes(header() + struct.pack("<II", 0xFFFFFFFF, 0))
    log = LogFile(path)
    assert log.records == []
    log.close()
    with pytest.raises(errors.NeverFitsError, match="a record of"):
        framed(CommitRecord(session_created=log_pb2.SessionCreated(done_bitmap=bytes(log_file.MAX_RECORD_BYTES))))


def test_a_directory_in_its_place_is_named(path: Path) -> None:
    path.mkdir()
    with pytest.raises(errors.TfquiverError, match=str(path)):
        LogFile(path)


def test_a_full_disk_leaves_the_log_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = LogFile(path)
    log.append(framed(RECORDS[0]))
    write, room = os.pwrite, [5]

    def filling(file: int, data: memoryview, offset: int) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken, room[0] = min(room[0], len(data)), max(room[0] - len(data), 0)
        return write(file, data[:taken], offset)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", filling)
        with pytest.raises(errors.ResourceExhaustedError, match="make room for the commit log"):
            log.append(framed(RECORDS[1]))
        with pytest.raises(errors.ResourceExhaustedError):
            log.replace([framed(RECORDS[2])])
    assert path.read_bytes() == header() + framed(RECORDS[0])
    assert list(path.parent.iterdir()) == [path]
    log.append(framed(RECORDS[1]))
    log.close()
    again = LogFile(path)
    assert again.records == RECORDS[:2]
    again.close()


def test_a_new_log_takes_the_place_of_the_old_one(path: Path) -> None:
    log = LogFile(path)
    for record in RECORDS:
        log.append(framed(record))
    log.replace([framed(acked(7))])
    log.append(framed(acked(8)))
    assert log.size_bytes == path.stat().st_size
    log.close()
    again = LogFile(path)
    assert again.records == [acked(7), acked(8)]
    again.close()


def test_who_was_replaced_while_it_wrote_a_snapshot_spoils_nothing_of_the_next_ones(path: Path) -> None:
    """As on a network file system that has given its lock to another."""
    first = LogFile(path)

    def halted() -> Iterator[bytes]:
        yield framed(acked(1))
        second = LogFile(path)
        second.replace(map(framed, RECORDS))
        second.close()
        yield from (framed(acked(number)) for number in range(100, 110))

    new = first.prepare(halted())
    with pytest.raises(errors.UnavailableError):
        first.switch(new, b"")
    first.close()
    again = LogFile(path)
    assert again.records == RECORDS
    again.close()


def test_what_a_later_version_has_written_is_kept_aside_before_it_is_left_out(path: Path) -> None:
    unknown = CommitRecord.FromString(b"\x7a\x02\x08\x01")  # a field of a number that none has
    assert unknown.WhichOneof("record") is None
    data = header() + framed(RECORDS[0]) + framed(unknown) + framed(RECORDS[1])
    path.write_bytes(data)
    log = LogFile(path)
    assert log.records == RECORDS[:2]
    log.replace([framed(record) for record in log.records])
    log.close()
    aside = path.with_suffix(".later")
    assert aside.read_bytes() == data
    log = LogFile(path)
    assert log.records == RECORDS[:2]
    log.close()
    assert aside.read_bytes() == data, "not replaced by what has less"


def test_damage_before_records_of_every_kind_is_refused(path: Path) -> None:
    for field in CommitRecord.DESCRIPTOR.fields:
        record = CommitRecord()
        getattr(record, field.name).SetInParent()
        damaged = bytearray(header() + framed(RECORDS[0]) + framed(record))
        damaged[len(header()) + 10] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(errors.DataLossError, match="damaged, and whole records follow"):
            LogFile(path)
