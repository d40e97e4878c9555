"""What is given up while it is on its way here, from a store that takes its time."""

from __future__ import annotations

import asyncio
import gzip
import threading
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.store_node import StoreNode, build, is_shard, write_files
from tfquiver.stores.local import LocalStore


class Late(LocalStore):
    """Answers when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.answers = threading.Event(), threading.Event()

    def read(self, uri: str, offset: int, length: int, generation: str, deadline_s: float) -> bytes:
        self.asked.set()
        self.answers.wait(60)
        return super().read(uri, offset, length, generation, deadline_s)


@pytest.mark.parametrize("compressed", [False, True])
@on_loop
async def test_what_was_being_prefetched_does_not_come_to_stand(tmp_path: Path, compressed: bool) -> None:
    pattern = write_files(tmp_path / "data", files=1)
    if compressed:
        path = tmp_path / "data" / "0.tfrecord"
        path.write_bytes(gzip.compress(path.read_bytes()))
    digest, store = build(pattern), Late()
    hashes = [row.tobytes() for row in digest.hashes]
    async with StoreNode(tmp_path / "cache", store_for=lambda _: store) as node:
        loads = [asyncio.ensure_future(node.source.load(digest, index)) for index in range(digest.num_shards)]
        await asyncio.to_thread(store.asked.wait, 60)
        for load in loads:
            load.cancel()
        await asyncio.gather(*loads, return_exceptions=True)
        await node.source.give_up(hashes)
        store.answers.set()
        async with asyncio.timeout(60):
            while list(node.source._flights) or node.fetcher.passing():
                await asyncio.sleep(0.01)
        assert len(node.disk) == 0
        assert is_shard(await node.source.get(digest, 0, node.node_id), digest, 0)
        assert hashes[0] in node.disk, "who asks for it later has it kept"
