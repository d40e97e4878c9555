"""Packs all parts, several at a time; what is there of an earlier run is left alone."""

from __future__ import annotations

import ctypes
import hashlib
import json
import multiprocessing
import os
import re
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any

from tfquiver import errors, named_files
from tfquiver.listing.listing import PACK_NOTE
from tfquiver.packing import examples
from tfquiver.packing.sources import Part
from tfquiver.packing.targets import Target
from tfquiver.scanning import tfrecord
from tfquiver.sizes_durations_amounts.amounts import many
from tfquiver.stores.local import whole_path
from tfquiver.users_arguments_checked import checks

# A disk takes 255 bytes; the longest name, while a note is written, is ..NAME.pack.json.DIGITS.claim.DIGITS.tmp: twice
# 16 digits.
MOST_NAME_BYTES = 199
_VERSION = 2  # 1: without `of` and `parts`
_PART_DIGITS = 32
_PR_SET_PDEATHSIG = 1


def check_name(argument: str, name: str) -> None:
    """Before anything is looked at or written. Raises InvalidArgumentError naming the argument."""
    checks.check_name(argument, name)
    if "/" in name:
        raise errors.InvalidArgumentError(
            f"{argument}={name}: is how files' names begin, without /: it is -o that says where they go"
        )
    if (size_bytes := len(name.encode())) > MOST_NAME_BYTES:
        raise errors.InvalidArgumentError(
            f"{argument}={name[:40]!r}...: {size_bytes} bytes in UTF-8; the limit is {MOST_NAME_BYTES}: a disk takes "
            "255, and behind it stands what tells the files apart"
        )


def file_name(name: str, number: int, count: int) -> str:
    return f"{name}-{number:05}-of-{count:05}.tfrecord"


def pack(
    parts: Sequence[Part], target: Target, name: str, workers: int, done: Callable[[int, int], None] = lambda *_: None
) -> int:
    """Makes the files that are missing; returns how many were. `done`: told how many are there, and of how many.

    Raises InvalidArgumentError: a pack of that name was made of other files, or files of that name are there which no
    pack says are its own; UnavailableError: a source changed while it was packed; and what examples.of_part raises.
    """
    there, count = target.names(), len(parts)
    _check_is_no_others(target, name, there)
    note, stamps = _note(parts)
    there -= set(_gone_on_with(note, target, name, there))
    missing = [number for number in range(count) if file_name(name, number, count) not in there]
    done(count - len(missing), count)
    if missing:
        claim = _Claim(target, name, json.dumps(note, sort_keys=True).encode())
        _make_all(parts, stamps, claim, workers, missing, done)
    target.tidy(name)  # what a run that was killed has left; it had nothing to bring that is not there
    return len(missing)


def _make_all(
    parts: Sequence[Part],
    stamps: Sequence[bytes],
    claim: _Claim,
    workers: int,
    missing: Sequence[int],
    done: Callable[[int, int], None],
) -> None:
    count = len(parts)
    if min(workers, len(missing)) == 1:  # a process would first take half a second to import what this one has
        for finished, number in enumerate(missing, 1):
            _make(parts[number], stamps[number], claim, file_name(claim.name, number, count))
            done(count - len(missing) + finished, count)
        return
    # Spawned: whoever calls this may have threads.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(workers, len(missing)), context, _begin, (os.getpid(), claim))
    try:
        jobs = [
            pool.submit(_make_here, parts[number], stamps[number], file_name(claim.name, number, count))
            for number in missing
        ]
        for finished, job in enumerate(as_completed(jobs), 1):
            job.result()
            done(count - len(missing) + finished, count)
    except BrokenProcessPool as error:
        raise errors.UnavailableError("a process that packs was killed (too little memory?): run it again") from error
    finally:
        pool.shutdown(cancel_futures=True)


@dataclass
class _Claim:
    """That the files of a name are this pack's: said before the first of them has its name. Not before it has all its
    bytes: a source of which nothing could be packed would keep what is right out of its folder."""

    target: Target
    name: str
    said: bytes
    is_made: bool = False

    def make(self) -> None:
        """Raises InvalidArgumentError: another pack has, meanwhile."""
        if not self.is_made:
            manifest = self.name + PACK_NOTE
            found = self.target.claim(manifest, self.said)
            if found != self.said and not _is_of_the_same(json.loads(self.said), _read_note(found)):
                raise _is_of_others(self.name)
            self.is_made = True


_its_claim: list[_Claim] = []  # of a process that packs: of many files it is longer than what else a job needs


def _begin(parent: int, claim: _Claim) -> None:
    """A worker does not outlive a parent that is killed: it would wait for more for ever."""
    _its_claim.append(claim)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it was killed before
        os._exit(1)


def _check_is_no_others(target: Target, name: str, there: Set[str]) -> None:
    """A pack says that files are its own before it makes the first of them. Others' would be taken for made."""
    manifest, its = name + PACK_NOTE, re.compile(rf"{re.escape(name)}-\d+-of-\d+\.tfrecord")
    found = min(filter(its.fullmatch, there), default=None)
    # Looked at twice: of a list that is read while another pack begins it may have a file and not what was before.
    if found is not None and manifest not in there and manifest not in target.names():
        raise errors.InvalidArgumentError(
            f"{found}: is there already, and no {manifest} says of what it was made: take another --name or -o, or "
            f"delete what is there of that name ({name}-*.tfrecord)"
        )


def _gone_on_with(note: Mapping[str, Any], target: Target, name: str, there: Set[str]) -> list[str]:
    """Of what a pack that was begun before is made: no later run mixes two. Returns files that were made of what has
    been mended since, and are gone now: a run that was refused half-way goes on with the others."""
    manifest, count = name + PACK_NOTE, note["files"]
    if (found := target.read(manifest)) is None or _is_of_the_same(note, before := _read_note(found)):
        return []
    its_parts = dict(enumerate(before["parts"])) if before.get("of") == note["of"] else {}
    files = [file_name(name, number, count) for number in range(count)]
    if len(its_parts) != count or there >= set(files):
        raise _is_of_others(name)
    changed = [number for number, part in enumerate(note["parts"]) if its_parts[number] != part]
    stale = [files[number] for number in changed if files[number] in there]
    for file in stale:  # before the note says that all that is there is of what it has
        target.remove(file)
    target.replace(manifest, json.dumps(note, sort_keys=True).encode())
    return stale


def _read_note(said: bytes) -> dict[str, Any]:
    """Empty: it is none. An older tfquiver's has no parts."""
    try:
        note = json.loads(said)
        return {
            "files": note["files"],
            "sources": note["sources"],
            "of": note.get("of"),
            "parts": list(note.get("parts", ())),
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def _is_of_the_same(note: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(other.get(key) == note[key] for key in ("files", "sources"))


def _is_of_others(name: str) -> errors.InvalidArgumentError:
    manifest = name + PACK_NOTE
    return errors.InvalidArgumentError(
        f"{manifest}: a pack of this name was made of other files, or in another way: take another --name, or "
        f"delete that one ({name}-*.tfrecord and {manifest})"
    )


def _note(parts: Sequence[Part]) -> tuple[dict[str, Any], list[bytes]]:
    """What a pack says of itself; and a stamp of each part, as long as nobody writes to its files the same.

    `of`: what was named; `sources`: all that it is made of; `parts`: that of each file."""
    named, every = hashlib.sha256(), hashlib.sha256()
    each, stamps = [], []
    for source in sorted({whole_path(str(part.source)) for part in parts if part.source}):
        named.update(f"{source}\0".encode(errors="surrogateescape"))
    for part in parts:
        its = hashlib.sha256("\0".join(part.classes).encode(errors="surrogateescape"))  # labels are their numbers
        stats = _stats(part)
        for path, (size_bytes, _) in zip(part.files, stats, strict=True):
            said_of_it = f"{part.kind}\0{whole_path(str(path))}\0{size_bytes}\0"
            for digest in (every, its):
                digest.update(said_of_it.encode(errors="surrogateescape"))
        every.update(b"\0")
        each.append(its.hexdigest()[:_PART_DIGITS])
        stamps.append(_stamp(stats))
    note = {
        "version": _VERSION, "files": len(parts), "sources": every.hexdigest(), "of": named.hexdigest(), "parts": each,
    }  # fmt: skip
    return note, stamps


def _stats(part: Part) -> list[tuple[int, int]]:
    """Of each of its files the size, and when it was written to last."""
    found = []
    for path in part.files:
        try:
            stat = path.stat()
        except OSError as error:
            raise named_files.not_read(error, str(path), path) from error
        found.append((stat.st_size, stat.st_mtime_ns))
    return found


def _stamp(stats: Sequence[tuple[int, int]]) -> bytes:
    return hashlib.sha256(repr(stats).encode()).digest()


def _make_here(part: Part, stamp: bytes, file: str) -> None:
    _make(part, stamp, _its_claim[0], file)


def _make(part: Part, stamp: bytes, claim: _Claim, file: str) -> None:
    claim.target.write(file, _framed(part, stamp, claim))


def _framed(part: Part, stamp: bytes, claim: _Claim) -> Iterator[bytes]:
    """Raises, before the last of it is taken and the file has its name, where it is not what the pack has said, or
    files of that name have become another's."""
    for record in examples.of_part(part):
        yield tfrecord.frame(record)
    if _stamp(_stats(part)) != stamp:
        first, more = part.files[0], len(part.files) - 1
        what = f"{first}, or one of {many(more, 'other file')} packed with it," if more else f"{first}:"
        raise errors.UnavailableError(f"{what} changed while it was packed: pack again when nobody writes to it")
    claim.make()
