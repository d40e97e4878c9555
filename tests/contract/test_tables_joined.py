"""Large tables are joined beside the loop, and what nodes tell is found before, meanwhile, and then."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_here import beat, parts, read_first, started
from tests.support.digests import numbered_digest
from tfquiver.service.coordinator.resident_shards import table_index
from tfquiver.service.coordinator.resident_shards.residency import Residency
from tfquiver.service.coordinator.resident_shards.table_index import Joint
from tfquiver.shard_owners_chunks_hash_prefixes.prefixes import of_rows


@on_loop
async def test_what_nodes_tell_is_found_before_tables_are_joined_meanwhile_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_index, "_MOST_INDEXED", 5)
    monkeypatch.setattr(table_index, "_MOST_APART", 2)
    made, go_on, joined = table_index._joint_of, threading.Event(), asyncio.Event()
    join, on_loop_thread, made_in = Residency.join, threading.current_thread(), list[threading.Thread]()

    def held(*tables: object) -> Joint:
        made_in.append(threading.current_thread())
        assert go_on.wait(10)
        return made(*tables)  # type: ignore[arg-type]

    def noted(self: Residency, joint: Joint) -> None:
        join(self, joint)
        joined.set()

    monkeypatch.setattr(table_index, "_joint_of", held)
    monkeypatch.setattr(Residency, "join", noted)
    digests = [numbered_digest(10, f"data {number}") for number in range(4)]
    async with started(tmp_path) as coordinator, asyncio.timeout(20):
        for digest in digests:
            await coordinator.catalogue.register(digest.name, b"", None, parts(digest))
            await read_first(coordinator, digest.name, digest.digest_id)
        tables = [coordinator.residency.table(digest.digest_id) for digest in digests]
        beat(coordinator, "tells")
        for shards in (slice(0, 3), slice(3, 6)):
            for digest in digests:
                coordinator.caching.changed(coordinator.residency.added("tells", of_rows(digest.hashes[shards])))
            assert [table.resident_shards for table in tables] == [shards.stop] * len(tables)
            go_on.set()
            await joined.wait()
        assert set(made_in) and on_loop_thread not in made_in
