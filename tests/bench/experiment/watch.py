"""Looks at an experiment several times a second: bytes from the store, what is on the nodes' disks, jobs' records."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tests.bench.experiment.jobs import Floats, Jobs
from tests.bench.experiment.remote import Data, Remote
from tfquiver.shard_owners_chunks_hash_prefixes.striping import stripe


class ChunksOnDisk:
    """How much of each chunk is in the cache directories, seen from outside: by the names of the stored files."""

    def __init__(self, data: Data, chunks: int, partitions: int, cache_dirs: Sequence[Path]) -> None:
        """`chunks` and `partitions` as `World.set_cache` returned them."""
        digest = data.digest
        contents = np.ascontiguousarray(digest.hashes[:, :8]).view(np.uint64).reshape(-1)
        self._striping = stripe(digest.lengths, chunks, partitions, contents)
        self._shard_of = {digest.hashes[n].tobytes().hex(): n for n in range(digest.num_shards)}
        self._lengths = digest.lengths
        self._objects = [cache_dir / "objects" for cache_dir in cache_dirs]

    def look(self) -> npt.NDArray[np.int64]:
        """Raw bytes by chunk, shape [chunks]; a shard on two disks counts twice."""
        found = [n for objects in self._objects for n in map(self._shard_of.get, _names(objects)) if n is not None]
        chunk_of, lengths = self._striping.chunk_of[found], self._lengths[found]
        sums: npt.NDArray[np.int64] = np.bincount(chunk_of, lengths, self._striping.chunks).astype(np.int64)
        return sums

    @property
    def sizes_bytes(self) -> npt.NDArray[np.int64]:
        return self._striping.sizes_bytes


def _names(objects: Path) -> list[str]:
    """Directories come and go meanwhile."""
    found = []
    for first in _entries(objects):
        for second in _entries(first):
            found += [entry.name for entry in _entries(second)]
    return found


def _entries(directory: Path) -> list[Path]:
    try:
        return list(directory.iterdir())
    except FileNotFoundError:
        return []


@dataclass
class Samples:
    """One row a look: `at_s` [looks], `store_bytes` [looks], `records` [looks, jobs], `chunk_bytes` [looks, chunks]."""

    at_s: list[float] = field(default_factory=list)
    store_bytes: list[int] = field(default_factory=list)
    records: list[list[int]] = field(default_factory=list)
    chunk_bytes: list[npt.NDArray[np.int64]] = field(default_factory=list)

    def rates(self, window_s: float) -> tuple[Floats, Floats]:
        """Records/s of all jobs together, over the last `window_s` at each look: times, rates."""
        at, total = np.array(self.at_s), np.array(self.records, float).sum(axis=1)
        before = np.interp(at - window_s, at, total, left=0.0)
        return at, (total - before) / np.minimum(window_s, np.maximum(at, 1e-9))


class Watch:
    """A thread that looks every `interval_s` from `start` to `stop`."""

    def __init__(
        self, remote: Remote, jobs: Jobs, interval_s: float = 0.25, chunks: ChunksOnDisk | None = None
    ) -> None:
        self.samples = Samples()
        self._remote, self._jobs, self._interval_s, self._chunks = remote, jobs, interval_s, chunks
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def start(self) -> Watch:
        self._thread.start()
        return self

    def pause(self) -> None:
        """Looks no more. May be called from any thread, also from a job's."""
        self._stop.set()

    def stop(self) -> Samples:
        self.pause()
        self._thread.join()
        return self.samples

    def _run(self) -> None:
        next_at = time.monotonic()
        while not self._stop.wait(max(0.0, next_at - time.monotonic())):
            next_at += self._interval_s
            samples = self.samples
            samples.store_bytes.append(self._remote.payload_bytes())
            if self._chunks is not None:
                samples.chunk_bytes.append(self._chunks.look())
            samples.records.append([run.records for run in self._jobs.runs])
            samples.at_s.append(self._jobs.now_s)
