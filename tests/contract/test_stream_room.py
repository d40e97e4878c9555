"""How much of streams a node keeps: memory set aside, the disk, batches that are too large, checkpoints."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from pathlib import Path

from tests.support.aio import on_loop
from tests.support.stream_node import SPILL_BYTES, WINDOW_BYTES, batch, node_in
from tfquiver.messages_and_binary_formats import reader_frames as frames
from tfquiver.messages_and_binary_formats import stream_frames as stream
from tfquiver.service.node.sealed_memory_of_checked_shards import sealed_memory
from tfquiver.service.node.shared_batches.spill_files import SpillFiles
from tfquiver.service.node.shared_batches.streams import Streams


@on_loop
async def test_what_is_set_aside_is_what_is_in_use_whichever_thread_comes_last(tmp_path: Path) -> None:
    overtaken, aside = threading.Event(), list[int]()

    def set_aside(size_bytes: int) -> None:
        if size_bytes:
            overtaken.set()
        else:
            overtaken.wait(0.3)  # for the disk
        aside.append(size_bytes)

    streams = Streams(SpillFiles(tmp_path, SPILL_BYTES, set_aside))
    streams.deleted(0)
    await asyncio.sleep(0.05)
    memory = sealed_memory.sealed(bytes(100))
    os.close(await streams.write([memory], 100))
    await streams.close()
    os.close(memory)
    assert aside[-1] == 100


@on_loop
async def test_what_goes_to_the_disk_is_what_was_to_though_its_memory_is_dropped_at_once(tmp_path: Path) -> None:
    async with node_in(tmp_path) as node:
        follower = node.end()
        await follower.follow(makes=False)
        assert await follower.wants(0) == stream.Unmade(0)
        maker, _ = await node.maker()
        for index in range(12):  # all are there when the node looks; memory has room for eight
            maker.publish_now(index)
        while (given := await follower.wants(0)) == stream.Behind(0):  # it is on its way to the disk
            await asyncio.sleep(0.01)
        assert given == batch(0)


@on_loop
async def test_a_batch_that_is_too_large_is_refused_with_what_helps(tmp_path: Path) -> None:
    async with node_in(tmp_path) as node:
        maker, _ = await node.maker()
        await maker.publish(0, bytes(WINDOW_BYTES // 4 + 1))
        while isinstance((said := (await maker.hear())[0]), stream.Room):
            pass
        assert isinstance(said, frames.Error) and "window_bytes= must be four times a batch" in said.message


@on_loop
async def test_many_short_passes_are_no_many_passes(tmp_path: Path) -> None:
    async with node_in(tmp_path) as node:
        for pass_ in range(40):
            follower = node.end()
            await follower.follow(makes=False, pass_=pass_)
            assert await follower.wants(0) == stream.Unmade(0)
            maker, _ = await node.maker(pass_)
            await maker.publish(0)
            await maker.say(stream.Over(1))
            assert await follower.wants(0) == batch(0) and await follower.wants(1) == stream.Over(1)
            follower.close()
            maker.close()


@on_loop
async def test_checkpoints_take_a_quarter_of_the_window_at_most_and_the_newest_stays(tmp_path: Path) -> None:
    async with node_in(tmp_path) as node:
        maker, _ = await node.maker()
        for index in range(40):
            await maker.publish(index)
            size_bytes = WINDOW_BYTES // 4 + 1 if index == 39 else WINDOW_BYTES // 16
            checkpoint = sealed_memory.sealed(bytes(size_bytes))
            await maker.say(stream.Checkpoint(index + 1, size_bytes), checkpoint)
            os.close(checkpoint)
        await maker.say(stream.Over(40))
        maker.close()
        while _checkpoints() != 4:
            await asyncio.sleep(0.01)
        late = node.end()
        await late.follow(makes=False)
        await late.say(stream.Next(39))
        frame, fd = await late.hear()
        assert frame == stream.Checkpoint(39, WINDOW_BYTES // 16)
        os.close(fd)


def _checkpoints() -> int:
    """Of this process's descriptors."""
    found = 0
    for descriptor in list(Path("/proc/self/fd").iterdir()):
        with contextlib.suppress(OSError):
            found += descriptor.stat().st_size == WINDOW_BYTES // 16 and "memfd" in str(descriptor.readlink())
    return found
