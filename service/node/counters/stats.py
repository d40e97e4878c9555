"""What a node tells of the shards it has given out."""

from __future__ import annotations

from dataclasses import dataclass

from tfquiver.service.node.sealed_memory_of_checked_shards.ready_shard import ReadyShard


@dataclass(slots=True)
class Stats:
    """Counters since start, named as in node.proto's StatusReply; `entries` and `hot_bytes` are of now."""

    hits: int = 0
    peer_hits: int = 0
    misses: int = 0
    store_bytes: int = 0
    store_requests: int = 0
    corrupt_entries: int = 0
    refused_inserts: int = 0
    refused_by_disk: int = 0
    refused_damaged: int = 0
    entries: int = 0
    hot_bytes: int = 0
    evictions: int = 0
    evicted_bytes: int = 0
    loads: int = 0
    loaded_bytes: int = 0
    hit_bytes: int = 0
    peer_bytes: int = 0
    peer_mismatches: int = 0
    bypasses: int = 0
    bypass_bytes: int = 0
    cross_rack_bytes: int = 0
    moved_bytes: int = 0
    moved: int = 0
    computed: int = 0
    computed_bytes: int = 0
    written_bytes: int = 0

    def count(self, ready: ReadyShard) -> None:
        """A reader has been given it, who was the first to ask."""
        match ready.source:
            case "peer":
                self.peer_hits += not ready.peer_had_none  # else it is among that node's misses
                self.peer_bytes += ready.length_bytes
            case "store":
                self.misses += 1
            case _:
                self.hit(ready)

    def hit(self, ready: ReadyShard) -> None:
        self.hits += 1
        self.hit_bytes += ready.length_bytes
