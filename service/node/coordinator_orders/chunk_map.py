"""What a node knows of a data set that has a setting: its shards by hash, and the chunk of each. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from tfquiver.digests.digest import Digest
from tfquiver.disk_space_of_shards.entry_size import most_disk_bytes
from tfquiver.shard_owners_chunks_hash_prefixes import prefixes, rendezvous, striping

NO_CHUNK = 0


class ChunkMap:
    """Making it sorts the hashes, which takes a while for millions: do it in a thread. Read-only, 20 bytes a shard.

    Shards are found by the first 8 bytes of their hashes, as the coordinator does.

    Args:
      chunks: 0: it is not cached by chunks; all of it counts as chunk 0.
    """

    def __init__(self, digest: Digest, chunks: int, partitions: int) -> None:
        self.digest = digest
        self.entry_bytes = most_disk_bytes(digest.lengths)
        contents = prefixes.of_rows(digest.hashes)
        if chunks and digest.num_shards:
            chunk_of = striping.stripe(digest.lengths, chunks, partitions, contents).chunk_of
        else:
            chunk_of = np.full(digest.num_shards, NO_CHUNK, np.uint32)
        self.chunk_of = chunk_of
        order = np.argsort(contents, kind="stable")
        self._sorted, self._sorted_chunks = contents[order], chunk_of[order]
        self._by_chunk = np.argsort(chunk_of, kind="stable").astype(np.uint32)
        self._starts = np.searchsorted(chunk_of[self._by_chunk], np.arange(max(chunks, 1) + 1))

    def chunk(self, hash: bytes) -> int | None:
        """Of a shard; None when it is not of this data set."""
        prefix = prefixes.of_hash(hash)
        at = int(np.searchsorted(self._sorted, prefix))
        return int(self._sorted_chunks[at]) if at < len(self._sorted) and self._sorted[at] == prefix else None

    def chunks_of(self, hashes: Sequence[bytes]) -> npt.NDArray[np.int64]:
        """Of many; -1 for those that are not of this data set."""
        wanted = prefixes.of_hashes(hashes)
        if not len(self._sorted):
            return np.full(len(wanted), -1, np.int64)
        at = np.minimum(np.searchsorted(self._sorted, wanted), len(self._sorted) - 1)
        found = self._sorted[at] == wanted
        chunks: npt.NDArray[np.int64] = np.where(found, self._sorted_chunks[at].astype(np.int64), -1)
        return chunks

    def shards(self, chunk: int) -> npt.NDArray[np.uint32]:
        """Of one chunk, ascending; none of a chunk that there is not."""
        if not 0 <= chunk < len(self._starts) - 1:
            return self._by_chunk[:0]
        return self._by_chunk[self._starts[chunk] : self._starts[chunk + 1]]

    def hashes(self, chunk: int) -> list[bytes]:
        return [row.tobytes() for row in self.digest.hashes[self.shards(chunk)]]

    def where(self, condition: Callable[[bytes], bool]) -> list[int]:
        """The shards whose hashes meet a condition."""
        return [shard for shard, hash in enumerate(self.digest.hashes) if condition(hash.tobytes())]

    def own_shards(self, chunk: int, node_id: str, storing: Sequence[str]) -> npt.NDArray[np.uint32]:
        """Those of a chunk that `node_id` owns among the nodes that store; equal ones once."""
        shards = self.shards(chunk)
        hashes = self.digest.hashes[shards]
        if node_id not in storing or not len(shards):
            return shards[:0]
        _, first = np.unique(np.ascontiguousarray(hashes).view("V32").reshape(-1), return_index=True)
        shards, hashes = shards[np.sort(first)], hashes[np.sort(first)]
        mine = rendezvous.owners(hashes, storing) == list(storing).index(node_id)
        own: npt.NDArray[np.uint32] = shards[mine]
        return own
