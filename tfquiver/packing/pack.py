"""Packs all parts, several at a time; what is there of an earlier run is left alone."""

from __future__ import annotations

import ctypes
import hashlib
import json
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool

from tfquiver import errors
from tfquiver.listing.listing import PACK_NOTE
from tfquiver.packing import examples
from tfquiver.packing.sources import Part
from tfquiver.packing.targets import Target
from tfquiver.scanning import tfrecord
from tfquiver.stores.local import whole_path

_VERSION = 1
_PR_SET_PDEATHSIG = 1


def file_name(name: str, number: int, count: int) -> str:
    return f"{name}-{number:05}-of-{count:05}.tfrecord"


def pack(
    parts: Sequence[Part], target: Target, name: str, workers: int, done: Callable[[int, int], None] = lambda *_: None
) -> int:
    """Makes the files that are missing; returns how many were. `done`: told how many are there, and of how many.

    Raises InvalidArgumentError: a pack of that name was made of other files; and what examples.of_part raises.
    """
    _claim(parts, target, name)
    there, count = target.names(), len(parts)
    missing = [number for number in range(count) if file_name(name, number, count) not in there]
    done(count - len(missing), count)
    if missing:
        _make_all(parts, target, name, workers, missing, done)
    target.tidy(name)  # what a run that was killed has left; it had nothing to bring that is not there
    return len(missing)


def _make_all(
    parts: Sequence[Part],
    target: Target,
    name: str,
    workers: int,
    missing: Sequence[int],
    done: Callable[[int, int], None],
) -> None:
    count = len(parts)
    # Spawned: whoever calls this may have threads.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(workers, len(missing)), context, _end_with, (os.getpid(),))
    try:
        jobs = [pool.submit(_make, parts[number], target, file_name(name, number, count)) for number in missing]
        for finished, job in enumerate(as_completed(jobs), 1):
            job.result()
            done(count - len(missing) + finished, count)
    except BrokenProcessPool as error:
        raise errors.UnavailableError("a process that packs was killed (too little memory?): run it again") from error
    finally:
        pool.shutdown(cancel_futures=True)


def _end_with(parent: int) -> None:
    """A worker does not outlive a parent that is killed: it would wait for more for ever."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it was killed before
        os._exit(1)


def _claim(parts: Sequence[Part], target: Target, name: str) -> None:
    """Says first of what the pack is made, so that no later run mixes two."""
    manifest = name + PACK_NOTE
    digest = hashlib.sha256()
    for part in parts:
        for path in part.files:
            try:
                said_of_it = f"{part.kind}\0{whole_path(str(path))}\0{path.stat().st_size}\0"
            except OSError as error:
                raise errors.from_os_error(error, str(path)) from error
            digest.update(said_of_it.encode(errors="surrogateescape"))
        digest.update(b"\0")
    said = json.dumps(
        {"version": _VERSION, "files": len(parts), "sources": digest.hexdigest()}, sort_keys=True
    ).encode()
    if target.claim(manifest, said) != said:
        raise errors.InvalidArgumentError(
            f"{manifest}: a pack of this name was made of other files, or in another way: take another --name, or "
            "delete that one"
        )


def _make(part: Part, target: Target, file: str) -> None:
    target.write(file, _framed(part))


def _framed(part: Part) -> Iterator[bytes]:
    return (tfrecord.frame(record) for record in examples.of_part(part))
