"""The remote store of an experiment: the GCS emulator behind a byte rate, and numbered data sets in it."""

from __future__ import annotations

import os
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support import numbered
from tfquiver.digests.digest import Digest
from tfquiver.disk_space_of_shards.entry_size import most_disk_bytes
from tfquiver.listing import listing
from tfquiver.scanning import digest_build
from tfquiver.scanning.cutting import CutPolicy
from tfquiver.stores.gcs import GcsStore
from tfquiver.testing.emulated_store import EmulatedStore

_FRAME_BYTES = 16  # of a TFRecord
# More than a shard: shards leave the store one after the other. A dozen that are read at once are hundredths of a real
# chunk, but all of a small one, of which the first shard would then come with the last.
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True)
class Data:
    """A data set in the store. Record n's first 8 bytes are n; shards have `shard_records` records each."""

    name: str
    records: int
    path: Path  # of the digest
    digest: Digest

    @property
    def size_bytes(self) -> int:
        return self.digest.size_bytes

    @property
    def disk_bytes(self) -> int:
        """What all of it takes in caches: shares of a data set mean shares of this."""
        return int(most_disk_bytes(self.digest.lengths).sum())


@contextmanager
def _emulator(url: str) -> Iterator[None]:
    """In this process and those that it starts."""
    before = os.environ.get("STORAGE_EMULATOR_HOST")
    os.environ["STORAGE_EMULATOR_HOST"] = url
    try:
        yield
    finally:
        if before is None:
            del os.environ["STORAGE_EMULATOR_HOST"]
        else:
            os.environ["STORAGE_EMULATOR_HOST"] = before


@dataclass
class Remote:
    """`store.url` is what the node's STORAGE_EMULATOR_HOST is set to."""

    store: EmulatedStore
    base: Path

    @classmethod
    @contextmanager
    def start(cls, base: Path, bytes_per_s: float) -> Iterator[Remote]:
        """`bytes_per_s` is shared by all who read; 0: no limit."""
        base.mkdir(parents=True, exist_ok=True)
        with EmulatedStore.start(bytes_per_s, _PIECE_BYTES) as store:
            store.make_bucket("bench")
            yield cls(store, base)

    @contextmanager
    def used(self) -> Iterator[None]:
        """It is the store of this process and of those that it starts. A trainer's word of how to open it counts."""
        with _emulator(self.store.url):
            yield

    def payload_bytes(self) -> int:
        """Of object reads, since the start."""
        return self.store.traffic().payload_bytes

    def add(self, name: str, files: int, records_a_file: int, record_bytes: int, shard_records: int) -> Data:
        """Makes and uploads a data set and its digest: neither is slowed or counted. `records_a_file` is a multiple of
        `shard_records`: so all shards are of one size. Records are noise, which no codec makes smaller."""
        assert records_a_file % shard_records == 0, (records_a_file, shard_records)
        directory = self.base / name
        for path in numbered.write(directory, files, records_a_file, record_bytes, seed=zlib.crc32(name.encode())):
            self.store.put("bench", f"{name}/{path.name}", path.read_bytes())
        shutil.rmtree(directory)
        digest = self._digest(name, shard_records * (record_bytes + _FRAME_BYTES))
        path = self.base / f"{name}.tfqd"
        digest.save(path)
        return Data(name, files * records_a_file, path, digest)

    def _digest(self, name: str, shard_bytes: int) -> Digest:
        with _emulator(self.store.upstream_url):
            direct = GcsStore()
        try:
            files = listing.expand(f"gs://bench/{name}/*", lambda _: direct)
            policy = CutPolicy(shard_bytes, shard_bytes, shard_bytes)
            return digest_build.build(files, policy, name=name, store_for=lambda _: direct)
        finally:
            direct.close()
