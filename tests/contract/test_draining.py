"""What is under way is waited for while it goes on."""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time

import pytest

from tests.support.aio import on_loop
from tfquiver import errors
from tfquiver.service.node.placing_at_owners_and_writing.inserts import Inserts
from tfquiver.service.node.sealed_memory_of_checked_shards.verified import VerifiedShard
from tfquiver.service.node.shutdown.draining import finished


def shards(number: int) -> list[VerifiedShard]:
    return [
        VerifiedShard.check(hashlib.sha256(raw).digest(), raw, "a test")
        for raw in (bytes([n]) * 1000 for n in range(number))
    ]


@on_loop
async def test_inserts_that_have_not_begun_are_finished() -> None:
    """Eight, of which four at a time take a tenth of a second: closing alone would give up the other four."""
    stood = []

    def insert(shard: VerifiedShard) -> None:
        time.sleep(0.1)
        stood.append(shard.hash)

    inserts = Inserts(insert)
    keeping = [asyncio.create_task(inserts.keep(shard)) for shard in shards(8)]
    await asyncio.sleep(0)
    assert len(inserts) == 8
    assert await finished(lambda: len(inserts), 20.0, stalled_s=5.0) == 0
    assert len(stood) == 8
    await asyncio.gather(*keeping)
    await inserts.close()
    with pytest.raises(errors.ResourceExhaustedError, match="stopping"):
        await inserts.insert(shards(1)[0])


@on_loop
async def test_a_disk_that_hangs_is_not_waited_for() -> None:
    lets_go = threading.Event()
    inserts = Inserts(lambda shard: lets_go.wait(30.0) and None)
    keeping = [asyncio.create_task(inserts.keep(shard)) for shard in shards(2)]
    await asyncio.sleep(0)
    began_s = time.monotonic()
    assert await finished(lambda: len(inserts), 20.0, stalled_s=0.2) == 2
    assert time.monotonic() - began_s < 10.0
    lets_go.set()
    await asyncio.gather(*keeping)
    await inserts.close()


@on_loop
async def test_the_deadline_holds_however_much_gets_done() -> None:
    ever_less = iter(range(1_000_000, 0, -1))
    assert await finished(lambda: next(ever_less), 0.2, stalled_s=5.0) > 0
    assert await finished(lambda: 3, 0.0) == 3
