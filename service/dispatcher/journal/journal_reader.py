"""The dispatcher's journal, read while the dispatcher writes it.

TensorFlow keeps it as `<work_dir>/tf_data_dispatcher_journal/journal_<n>`: TFRecord files, one more at every start,
each record an `Update` message. Only the updates that say who works on what, and who reads it, are decoded.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import google_crc32c
from absl import logging

from tfquiver import errors
from tfquiver.scanning import tfrecord
from tfquiver.tensorflow_dispatcher_and_worker_connections import proto_wire

JOURNAL_DIR = "tf_data_dispatcher_journal"
MAX_RECORD_BYTES = 256 << 20
_HEADER = struct.Struct("<QI")
_CRC = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class CreateJob:
    job_id: int
    dataset_id: str


@dataclass(frozen=True, slots=True)
class CreateIteration:
    iteration_id: int
    job_id: int
    sources: int  # split providers


@dataclass(frozen=True, slots=True)
class CreateTask:
    task_id: int
    iteration_id: int
    worker_address: str


@dataclass(frozen=True, slots=True)
class ClientCame:
    """A trainer's iterator reads the iteration from now on."""

    client_id: int
    iteration_id: int


@dataclass(frozen=True, slots=True)
class ClientLeft:
    """It was destroyed, or has been silent for too long."""

    client_id: int


@dataclass(frozen=True, slots=True)
class SplitProduced:
    """A worker was given a split of one source, or told that there are no more of them."""

    iteration_id: int
    source: int
    end: bool


@dataclass(frozen=True, slots=True)
class TaskOver:
    """The task was finished, or was taken out of its iteration."""

    task_id: int
    finished: bool


@dataclass(frozen=True, slots=True)
class IterationDropped:
    iteration_id: int


Update = (
    CreateJob | CreateIteration | CreateTask | ClientCame | ClientLeft | SplitProduced | TaskOver | IterationDropped
)


def _masked(data: bytes) -> int:
    return tfrecord.masked(google_crc32c.value(data))


def whole_records(data: bytes, start: int = 0) -> Iterator[tuple[int, bytes]]:
    """(offset after the record, payload) of every whole TFRecord from `start`; ends before the first that is not."""
    at = start
    while len(data) - at >= _HEADER.size:
        length, crc = _HEADER.unpack_from(data, at)
        end = at + _HEADER.size + length + _CRC.size
        if crc != _masked(data[at : at + 8]) or length > MAX_RECORD_BYTES or end > len(data):
            return
        payload = data[at + _HEADER.size : end - _CRC.size]
        if _CRC.unpack_from(data, end - _CRC.size)[0] != _masked(payload):
            return
        yield end, payload
        at = end


def journal_files(journal_dir: Path) -> list[Path]:
    """The journal's files in the order in which the dispatcher reads them.

    Raises:
      DataLossError: a number is missing between them: TensorFlow would silently stop reading at the gap.
    """
    if not journal_dir.is_dir():
        return []
    numbered = {
        int(match[1]): path for path in journal_dir.iterdir() if (match := re.fullmatch(r"journal_(\d+)", path.name))
    }
    for number in range(len(numbered)):
        if number not in numbered:
            raise errors.DataLossError(
                f"{journal_dir / f'journal_{number}'} is missing although later files of this journal are there; "
                "restore it, or move the work directory away to begin anew"
            )
    return [numbered[number] for number in sorted(numbered)]


def decode(record: bytes) -> Update | None:
    """The update in a journal record; None for kinds that say nothing about tasks. Raises ProtocolError."""
    for number, body in proto_wire.fields(record):
        if isinstance(body, int):
            continue
        if number == 14:
            job = dict(proto_wire.fields(body))
            return CreateJob(_int(job, 1), _str(job, 3))
        if number == 2:
            iteration = dict(proto_wire.fields(body))
            return CreateIteration(_int(iteration, 1), _int(iteration, 2), _int(iteration, 4))
        if number == 3:
            task = dict(proto_wire.fields(body))
            return CreateTask(_int(task, 1), _int(task, 2), _str(task, 4))
        if number == 6:
            came = dict(proto_wire.fields(body))
            return ClientCame(_int(came, 2), _int(came, 1))
        if number == 7:
            return ClientLeft(_int(dict(proto_wire.fields(body)), 1))
        if number == 8:
            split = dict(proto_wire.fields(body))
            return SplitProduced(_int(split, 1), _int(split, 4), end=bool(_int(split, 3)))
        if number in (4, 11):
            return TaskOver(_int(dict(proto_wire.fields(body)), 1), finished=number == 4)
        if number == 12:
            return IterationDropped(_int(dict(proto_wire.fields(body)), 1))
    return None


def _int(message: dict[int, int | bytes], number: int) -> int:
    value = message.get(number, 0)
    if not isinstance(value, int):
        raise errors.ProtocolError(f"journal: field {number} should be an integer")
    return value


def _str(message: dict[int, int | bytes], number: int) -> str:
    value = message.get(number, b"")
    if not isinstance(value, bytes):
        raise errors.ProtocolError(f"journal: field {number} should be a string")
    return value.decode(errors="replace")


class JournalFollower:
    """Reads what was added since the last call. Not thread-safe."""

    def __init__(self, journal_dir: Path) -> None:
        self._dir = journal_dir
        self._file = 0
        self._offset = 0

    def poll(self) -> Iterator[Update]:
        """Updates written since the last poll, each once, whatever fails between them; a record that is still being
        written waits for the next poll, and one that says nothing that is understood is passed over. Raises OSError."""
        while True:
            path = self._dir / f"journal_{self._file}"
            try:
                with path.open("rb") as file:
                    file.seek(self._offset)
                    data = file.read()
            except FileNotFoundError:
                return
            start = self._offset
            for end, record in whole_records(data):
                at, self._offset = self._offset, start + end
                try:
                    update = decode(record)
                except errors.ProtocolError as error:
                    logging.warning("%s, offset %d: %s; the record is passed over", path, at, error)
                    continue
                if update is not None:
                    yield update
            if not (self._dir / f"journal_{self._file + 1}").exists():
                return
            self._file, self._offset = self._file + 1, 0
