"""Several programs that read through a mount's files at the same time. Without FUSE, the shards of a node that has them
stored compressed."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import google_crc32c
import pytest

from tests.support.digests import digest_of
from tfquiver.glob_patterns_and_file_trees.tree import FileTree
from tfquiver.messages_and_binary_formats import reader_frames as frames

trio = pytest.importorskip("trio")
pytest.importorskip("trio.testing")
pytest.importorskip("pyfuse3")
operations = pytest.importorskip("tfquiver.mounting.operations")
open_shards = pytest.importorskip("tfquiver.mounting.open_shards")
node_line = pytest.importorskip("tfquiver.mounting.node_line")

SHARD = 1 << 20
EACH, STREAMS = 40, 8
READ = 1 << 19
AHEAD = 8 * SHARD
DIGEST = digest_of([index.to_bytes(32, "big") for index in range(EACH * STREAMS)], shard_bytes=SHARD)


class Node(node_line.NodeLine):  # type: ignore[name-defined,misc]
    """Gives any shard in memory; those that `holds` says, never."""

    def __init__(self, fd: int, holds: Callable[[int], bool]) -> None:
        super().__init__(DIGEST, "data", 1.0)
        self._fd, self._crc32c, self._holds = fd, google_crc32c.value(bytes(SHARD)), holds
        self.asked, self.held = Counter[int](), set[int]()

    async def get(self, shard: int, again: bool = False, give_up_at: float = 0.0) -> tuple[frames.Got, int]:
        self.asked[shard] += 1
        if self._holds(shard):
            self.held.add(shard)
            await trio.sleep_forever()
        got = frames.Got(request=1, kind=frames.KIND_MEMORY, offset=0, length_bytes=SHARD, crc32c=self._crc32c)
        return got, os.dup(self._fd)


@pytest.fixture
def fd() -> Iterator[int]:
    made = os.memfd_create("shard")
    os.ftruncate(made, SHARD)
    yield made
    os.close(made)


def run(monkeypatch: pytest.MonkeyPatch, node: Node, memory_bytes: int, test: Callable[[Any], Awaitable[None]]) -> None:
    async def here(call: Callable[..., Any], *arguments: Any, **_: Any) -> Any:
        return call(*arguments)

    async def main() -> None:
        shards = open_shards.OpenShards(DIGEST, node, 1000, memory_bytes)
        async with trio.open_nursery() as nursery:
            await test(operations.Operations(DIGEST, FileTree(DIGEST.files), node, shards, nursery, AHEAD))
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        shards.close()

    monkeypatch.setattr(trio.to_thread, "run_sync", here)
    trio.run(main)


async def read(made: Any, streams: int, begin: int, end: int) -> None:
    for offset in range(begin, end, READ):
        for stream in range(streams):
            assert len(await made.read(0, stream * EACH * SHARD + offset, READ)) == READ
        await trio.testing.wait_all_tasks_blocked()  # what is fetched ahead comes at once


def test_what_was_fetched_ahead_is_there_when_it_is_read(monkeypatch: pytest.MonkeyPatch, fd: int) -> None:
    node = Node(fd, lambda shard: False)
    run(monkeypatch, node, 8 * AHEAD, lambda made: read(made, STREAMS, 0, EACH * SHARD))
    assert node.asked.total() <= 1.1 * EACH * STREAMS


@pytest.mark.parametrize("streams", [1, 4])
def test_half_of_what_each_is_ahead_is_under_way(monkeypatch: pytest.MonkeyPatch, fd: int, streams: int) -> None:
    node = Node(fd, lambda shard: shard % EACH >= 8)
    run(monkeypatch, node, 64 * AHEAD, lambda made: read(made, streams, 0, 8 * SHARD))
    assert len(node.held) == streams * AHEAD // 2 // SHARD
