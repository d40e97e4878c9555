"""How much there is of everything, the same in every process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tfquiver.digests.digest import Digest
from tfquiver.digests.file_entry import FileEntry
from tfquiver.shard_owners_chunks_hash_prefixes.prefixes import of_rows

SHARD_BYTES = 2 << 20
RECORD_BYTES = 128 << 10
CLIENTS = 2  # processes


@dataclass(frozen=True, slots=True)
class Scale:
    nodes: int
    jobs: int
    datasets: int
    shards: int  # of all data sets together

    @property
    def sizes(self) -> list[int]:
        """Shards of each data set: the largest has four times those of the smallest."""
        weights = np.linspace(1.0, 4.0, self.datasets)
        sizes: list[int] = (weights / weights.sum() * self.shards).astype(int).tolist()
        sizes[-1] += self.shards - sum(sizes)
        return sizes

    @property
    def quota_bytes(self) -> int:
        """Of a node: all together have room for half of the data."""
        return self.shards * SHARD_BYTES // 2 // self.nodes


def write_hashes(scale: Scale, base: Path) -> None:
    for number, shards in enumerate(scale.sizes):
        rng = np.random.default_rng(number)
        np.save(base / f"hashes-{number}.npy", rng.integers(0, 256, (shards, 32), np.uint8))


def read_hashes(base: Path, number: int) -> npt.NDArray[np.uint8]:
    """Shape [shards, 32]. Mapped: all processes share it."""
    hashes: npt.NDArray[np.uint8] = np.load(base / f"hashes-{number}.npy", mmap_mode="r")
    return hashes


def digest(base: Path, number: int) -> Digest:
    hashes = read_hashes(base, number)
    shards = len(hashes)
    return Digest.build(
        f"data-{number:02}",
        [FileEntry(f"file:///data-{number}", shards * SHARD_BYTES, "1", "none")],
        hashes,
        np.zeros(shards),
        np.arange(shards, dtype=np.uint64) * SHARD_BYTES,
        np.full(shards, SHARD_BYTES),
        np.full(shards, SHARD_BYTES // RECORD_BYTES),
    )


def node_of(hashes: npt.NDArray[np.uint8], nodes: int) -> npt.NDArray[np.int64]:
    """Which fake keeps each shard. Not the owner that the coordinator names: it believes what nodes tell, and the
    owners of millions of shards among a thousand nodes take a minute to compute."""
    return (of_rows(hashes) % np.uint64(nodes)).astype(np.int64)
