"""Processes that scan files side by side: parsing small records keeps a core busy, and Python's lock would share it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.connection import wait as wait_for
from pathlib import Path
from typing import Any

from tfquiver import errors
from tfquiver.digests.file_entry import FileEntry
from tfquiver.scanning.cutting import CutPolicy
from tfquiver.scanning.file_scan import Report, ScannedFile, scan_file
from tfquiver.stores import ObjectStore

_REPORT_EVERY_S = 0.1
_BYTES, _RECORDS, _STOP = range(3)


@dataclass(frozen=True, slots=True)
class _Setup:
    policy: CutPolicy
    store_for: Callable[[str], ObjectStore]
    journal_dir: Path | None
    counters: Any  # shared memory: stored bytes, records, stop flag


class ScanPool:
    """A context manager. Leaving it stops the scans that still run, within one read each, and ends the processes.

    The processes end by themselves when this one is killed.
    """

    def __init__(
        self, workers: int, policy: CutPolicy, store_for: Callable[[str], ObjectStore], journal_dir: Path | None
    ) -> None:
        # Spawned, not forked: the caller may have threads, and stores with open connections.
        context = multiprocessing.get_context("spawn")
        self._counters = context.Array("Q", 3)
        setup = _Setup(policy, store_for, journal_dir, self._counters)
        self._pool = ProcessPoolExecutor(workers, context, initializer=_start_worker, initargs=(setup,))
        self._reported = [0, 0]

    def __enter__(self) -> ScanPool:
        return self

    def __exit__(self, *_: object) -> None:
        self._counters[_STOP] = 1
        self._pool.shutdown(wait=True, cancel_futures=True)

    def scan(self, files: Sequence[FileEntry], report: Report) -> Iterator[ScannedFile]:
        """Results in the order of `files`. The first failure is raised, whichever file it is about."""
        # Largest first, so that the last to be scanned is a small one.
        by_size = sorted(range(len(files)), key=lambda index: -files[index].size_bytes)
        submitted = {index: self._pool.submit(_scan, files[index]) for index in by_size}
        waiting: set[Future[ScannedFile]] = set(submitted.values())
        try:
            for index in range(len(files)):
                while not submitted[index].done():
                    done, waiting = wait(waiting, _REPORT_EVERY_S, FIRST_COMPLETED)
                    for future in done:
                        future.result()
                    self._tell(report)
                yield submitted.pop(index).result()
                self._tell(report)
        except BrokenProcessPool as error:
            raise errors.ResourceExhaustedError(
                "a scanning process died (out of memory?); run again to go on from there, with fewer workers"
            ) from error

    def _tell(self, report: Report) -> None:
        with self._counters.get_lock():
            now = [self._counters[_BYTES], self._counters[_RECORDS]]
        more = [current - before for current, before in zip(now, self._reported, strict=True)]
        self._reported = now
        report(*more)


_setup: _Setup | None = None


def _start_worker(setup: _Setup) -> None:
    global _setup
    _setup = setup
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    threading.Thread(target=_end_with_parent, name="end-with-parent", daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for([parent.sentinel])
        os._exit(1)


def _scan(file: FileEntry) -> ScannedFile:
    setup = _setup
    if setup is None:
        raise RuntimeError("the worker was not set up")
    counters = setup.counters

    def report(more_bytes: int, more_records: int) -> None:
        with counters.get_lock():
            counters[_BYTES] += more_bytes
            counters[_RECORDS] += more_records
            if counters[_STOP]:
                raise errors.CancelledError_(f"{file.uri}: the scan was stopped")

    return scan_file(file, setup.store_for(file.uri), setup.policy, setup.journal_dir, report)
