"""Makes a journal readable again after the dispatcher was killed while it wrote.

TensorFlow syncs every record but refuses to start on a torn last one. A torn tail was never acknowledged to anybody, so
it may go. Damage in front of whole records is something else (a failing disk) and is refused: cutting there would
forget state that workers and clients rely on.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path

from absl import logging

from tfquiver import durable, errors
from tfquiver.service.dispatcher.journal import journal_reader
from tfquiver.sizes_durations_amounts.amounts import of_bytes

CUT_DIR, _DATASETS = "journal_cuts", "datasets"
_MAX_JOURNAL_BYTES = 4 << 30
_MAX_SEARCH_BYTES = 16 << 20
_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class Cut:
    """One torn tail: `bytes_cut` bytes from `offset` of `path` now stand in `copy`."""

    path: Path
    offset: int
    bytes_cut: int
    copy: Path


def repair(work_dir: Path) -> list[Cut]:
    """Cuts every journal file under `work_dir` after its last whole record; what is cut is kept in `journal_cuts/`.
    Looks first whether what TensorFlow is to read are files: it would wait for a pipe, and hear no signal.

    Returns:
      What was cut; empty when the journal was whole or there is none.

    Raises:
      DataLossError: damage that is no torn tail, or a missing journal file; names file and offset.
      InvalidArgumentError: something else than a file is in the place of one.
      The typed error of a failed read or write: of a full disk, say.
    """
    try:
        for path in sorted((work_dir / _DATASETS).glob("*")):
            durable.check_file(path)
        return _repaired(work_dir)
    except OSError as error:
        raise errors.from_os_error(error, str(error.filename or work_dir)) from error


def _repaired(work_dir: Path) -> list[Cut]:
    cuts = []
    for path in journal_reader.journal_files(work_dir / journal_reader.JOURNAL_DIR):
        durable.check_file(path)
        if (size := path.stat().st_size) > _MAX_JOURNAL_BYTES:
            raise errors.DataLossError(f"{path}: a journal of {of_bytes(size)} is larger than any dispatcher writes")
        data = path.read_bytes()
        end = 0
        for end, _ in journal_reader.whole_records(data):  # noqa: B007 - the last offset counts
            pass
        if end == len(data):
            continue
        if (whole := _next_whole_record(data, end)) is not None:
            raise errors.DataLossError(
                f"{path}: damaged at offset {end}, and whole records follow from offset {whole}: this is no torn tail; "
                "restore the file, or move the work directory away to begin anew"
            )
        cuts.append(_cut(path, data, end, work_dir / CUT_DIR))
    return cuts


def _next_whole_record(data: bytes, after: int) -> int | None:
    """Offset of a whole, non-empty record somewhere behind `after`, or None."""
    for at in range(after + 1, min(len(data) - 16, after + _MAX_SEARCH_BYTES)):
        (length,) = _LENGTH.unpack_from(data, at)
        if 0 < length <= len(data) - at - 16 and next(journal_reader.whole_records(data, at), None):
            return at
    return None


def _cut(path: Path, data: bytes, offset: int, cut_dir: Path) -> Cut:
    # Beside the journal's directory, never in it: TensorFlow refuses files there that it cannot number.
    cut_dir.mkdir(exist_ok=True)
    number = sum(1 for _ in cut_dir.iterdir())
    while (copy := cut_dir / f"{path.name}.{offset}.{number}").exists():
        number += 1
    durable.write(copy, [data[offset:]])
    with path.open("r+b") as file:
        file.truncate(offset)
        os.fsync(file.fileno())
    logging.warning("%s: cut a torn tail of %d bytes at offset %d; kept in %s", path, len(data) - offset, offset, copy)
    return Cut(path, offset, len(data) - offset, copy)
