"""A mount's process that gets no thread for a moment, as where a container's `pids` limit is used up: reads fail with
an error number; whatever else a call raised would end the mount for all who read there."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any

import google_crc32c
import pytest

from tests.support.digests import numbered_digest
from tfquiver.glob_patterns_and_file_trees.tree import ROOT, FileTree
from tfquiver.messages_and_binary_formats import reader_frames as frames

trio = pytest.importorskip("trio")
pytest.importorskip("trio.testing")
pyfuse3 = pytest.importorskip("pyfuse3")
operations = pytest.importorskip("tfquiver.mounting.operations")
open_shards = pytest.importorskip("tfquiver.mounting.open_shards")
node_line = pytest.importorskip("tfquiver.mounting.node_line")

DIGEST = numbered_digest(8)
LENGTH = int(DIGEST.lengths[0])


class Node(node_line.NodeLine):  # type: ignore[name-defined,misc]
    """Gives any shard, and says of all that they are cached."""

    async def get(self, shard: int, again: bool = False, give_up_at: float = 0.0) -> tuple[frames.Got, int]:
        fd = os.memfd_create("shard")
        os.write(fd, bytes(LENGTH))
        crc = google_crc32c.value(bytes(LENGTH))
        return frames.Got(request=1, kind=frames.KIND_MEMORY, offset=0, length_bytes=LENGTH, crc32c=crc), fd

    async def resident(self) -> bytes:
        return b"\xff"


def test_reads_fail_and_the_mount_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: Any, **__: Any) -> Any:
        raise RuntimeError("can't start new thread")

    async def here(call: Callable[..., Any], *arguments: Any, **_: Any) -> Any:  # its own threads stay for a while
        return call(*arguments)

    async def reads() -> None:
        node = Node(DIGEST, "data", 1.0)
        shards = open_shards.OpenShards(DIGEST, node, 16, 1 << 20)
        async with trio.open_nursery() as nursery:
            made = operations.Operations(DIGEST, FileTree(DIGEST.files), node, shards, nursery, 1 << 20)
            with monkeypatch.context() as without:
                without.setattr(trio.to_thread, "run_sync", refuse)
                with pytest.raises(pyfuse3.FUSEError) as told:
                    await made.read(0, 0, LENGTH)
                assert told.value.errno == errno.EIO
                next_list = await made.lookup(ROOT, b".tfquiver", None)
                listed = await made.lookup(next_list.st_ino, b"next", None)
                with pytest.raises(pyfuse3.FUSEError):
                    await made.open(listed.st_ino, os.O_RDONLY, pyfuse3.RequestContext())
                await trio.testing.wait_all_tasks_blocked()  # what is fetched ahead fails, too
            monkeypatch.setattr(trio.to_thread, "run_sync", here)
            assert bytes(await made.read(0, 0, LENGTH)) == bytes(LENGTH)
            await made.release((await made.open(listed.st_ino, os.O_RDONLY, pyfuse3.RequestContext())).fh)
            nursery.cancel_scope.cancel()
        shards.close()

    trio.run(reads)
