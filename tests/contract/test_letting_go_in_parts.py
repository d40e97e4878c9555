"""What is let go of many shards leaves the disk's few threads to others in between."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from tests.support.aio import on_loop
from tfquiver.service.node.disk.disk_cache import DiskCache
from tfquiver.service.node.evicting_emptying_removing_leftovers.given_up import GivenUp
from tfquiver.service.node.evicting_emptying_removing_leftovers.letting_go import LettingGo
from tfquiver.service.node.hanging_disk.disk_threads import DiskThreads
from tfquiver.service.node.placing_at_owners_and_writing.handing_over import HandingOver
from tfquiver.service.node.placing_at_owners_and_writing.inserts import Inserts
from tfquiver.service.node.reading_the_object_store.client_stores import ClientStores
from tfquiver.service.node.reading_the_object_store.metered_store import Meter
from tfquiver.service.node.sealed_memory_of_checked_shards.hot import HotSet
from tfquiver.service.node.sealed_memory_of_checked_shards.verified import VerifiedShard
from tfquiver.service.node.shards_from_disk_other_nodes_or_store.fetcher import Fetcher

T = TypeVar("T")


@on_loop
async def test_a_note_waits_for_a_part_of_a_large_data_set_not_for_all_of_it(tmp_path: Path) -> None:
    """Four data sets of a million shards each held all four threads for a minute: notes, totals, and what readers of
    one stream have on the disk waited for that."""
    disk, hot, threads = DiskCache(tmp_path, 1 << 20), HotSet(1 << 20, 10), DiskThreads()
    fetcher = Fetcher(Meter(), lambda shard: False, deadline_s=1.0, store_for=ClientStores().of_dataset)
    asked = list[int]()

    async def on_disk(call: Callable[..., T], /, *arguments: Any) -> T:
        asked.append(len(arguments[0]))
        return await threads.run(call, *arguments)

    inserts = Inserts(disk.insert)
    letting_go = LettingGo("n", disk, hot, fetcher, inserts, HandingOver(None), GivenUp(hot.drop), on_disk)
    body = b"stands"
    stands = VerifiedShard.check(hashlib.sha256(body).digest(), body, "here")
    disk.insert(stands)
    hashes = [*(number.to_bytes(32, "big") for number in range(40_000)), stands.hash]
    assert await letting_go.evict(hashes)
    assert stands.hash in disk, "the rules keep it"
    assert (sum(asked), max(asked)) == (len(hashes), 1 << 14)
    asked.clear()
    await letting_go.give_up(hashes)
    assert stands.hash not in disk
    assert (sum(asked), max(asked)) == (len(hashes), 1 << 14)
    await inserts.close()
    await threads.close()
