"""Streams at the node's own socket: batches by descriptor, from memory and disk; makers that go; frames that lie."""

from __future__ import annotations

import asyncio
import os
import zlib
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.stream_node import SPILL_BYTES, WINDOW_BYTES, End, Node, batch, node_in
from tfquiver.messages_and_binary_formats import reader_frames as frames
from tfquiver.messages_and_binary_formats import stream_frames as stream
from tfquiver.service.node.sealed_memory_of_checked_shards import sealed_memory


@on_loop
async def test_the_first_is_told_to_make_them_and_all_get_the_same(tmp_path: Path) -> None:
    async with node_in(tmp_path) as node:
        one, two = node.end(), node.end()
        await one.follow(makes=False)
        await two.follow(makes=False)
        assert await one.wants(0) == stream.Unmade(0) and await two.wants(0) == stream.Unmade(0)
        maker, first = await node.maker()
        assert first == 0
        other = node.end()
        await other.follow(makes=True)
        assert (await other.hear())[0] == stream.Make(False, 0), "one at a time"
        await one.say(stream.Next(0))
        await two.say(stream.Next(0))
        await maker.publish(0)
        assert await one.given(0) == await two.given(0) == batch(0)
        await maker.say(stream.Over(1))
        assert await one.wants(1) == await two.wants(1) == stream.Over(1)


@pytest.mark.slow
@on_loop
async def test_who_is_slow_gets_them_from_the_disk_and_then_makes_them_again(tmp_path: Path) -> None:
    async with node_in(tmp_path) as node:
        slow, fast = node.end(), node.end()
        await slow.follow(makes=False)
        await fast.follow(makes=False)
        assert await slow.wants(0) == stream.Unmade(0)
        maker, _ = await node.maker()
        for index in range(60):
            await maker.publish(index)
            assert await fast.wants(index) == batch(index)
        assert await slow.wants(0) == batch(0), "memory has room for eight"
        assert 0 < max(node.aside) <= SPILL_BYTES and not list((tmp_path / "tmp").iterdir())
        for index in range(60, 400):
            await maker.publish(index)
            assert await fast.wants(index) == batch(index)
        assert await slow.wants(1) == stream.Behind(1), "memory and disk have room for 136"
        assert await slow.wants(390) == batch(390)


@on_loop
async def test_a_maker_that_goes_is_followed_by_another_with_its_checkpoint(tmp_path: Path) -> None:
    async with node_in(tmp_path) as node:
        follower = node.end()
        await follower.follow(makes=False)
        assert await follower.wants(0) == stream.Unmade(0)
        maker, _ = await node.maker()
        for index in range(3):
            await maker.publish(index)
        checkpoint = sealed_memory.sealed(b"behind two")
        await maker.say(stream.Checkpoint(2, 10), checkpoint)
        os.close(checkpoint)
        for index in range(3):
            assert await follower.wants(index) == batch(index)
        await follower.say(stream.Next(3))
        maker.close()
        assert await follower.given(3) == stream.Unmade(3)
        another = node.end()
        await another.follow(makes=True)
        frame, fd = await another.hear()
        assert frame == stream.Checkpoint(2, 10) and os.pread(fd, 10, 0) == b"behind two"
        os.close(fd)
        assert (await another.hear())[0] == stream.Make(True, 3)
        await another.publish(2, memory=False)  # as it was
        await follower.say(stream.Next(3))
        await another.publish(3)
        assert await follower.given(3) == batch(3)


@on_loop
async def test_a_maker_of_other_batches_is_sent_away_and_so_is_another_pipeline(tmp_path: Path) -> None:
    async with node_in(tmp_path) as node:
        maker, _ = await node.maker()
        await maker.publish(0)
        maker.close()
        follower = node.end()
        await follower.follow(makes=False)
        while not isinstance(await follower.wants(1), stream.Unmade):
            pass
        another, first = await node.maker()
        assert first == 1
        await another.publish(0, b"unlike", memory=False)
        said = None
        while not isinstance(said, frames.Error):
            said, _ = await another.hear()
        assert said.fatal and "batch 0 came out unlike" in said.message
        for likeness, differs in (
            (bytes(18) + b"x" * 7 + bytes(7), "here: other transformations or functions. All"),
            (bytes(6) + b"x" * 12 + bytes(14), "here: another order of the data, elements of another"),
            (b"x" * 32, "here: all of it, or their versions of tfquiver"),
        ):
            stranger = node.end()
            await stranger.follow(makes=False, likeness=likeness)
            answer, _ = await stranger.hear()
            assert isinstance(answer, frames.Error) and differs in answer.message


@on_loop
async def test_who_follows_is_answered_whether_the_node_is_there_and_its_disk(tmp_path: Path) -> None:
    async with node_in(tmp_path, disk_waits_s=lambda: 61.5) as node:
        one = node.end()
        await one.follow(makes=False)
        await one.say(frames.Ping())
        assert await one.hear() == (frames.Pong(61500), -1)
        maker, _ = await node.maker()
        await maker.say(frames.Ping())  # trainers of before would not know what to do with an answer
        await maker.publish(0)
        await maker.say(stream.Over(1))
        assert await one.wants(0) == batch(0)
        assert await one.wants(1) == stream.Over(1)
        assert (await maker.hear())[0] == stream.Room(16), "of one who wants the first"


@on_loop
async def test_who_begins_when_all_have_left_gets_nothing_that_they_made(tmp_path: Path) -> None:
    """Whoever ran a script, changed its pipeline and runs it again: within the minute for which batches are kept."""
    async with node_in(tmp_path) as node:
        for likeness in (bytes(32), bytes(32), b"x" * 32):  # the third time it is seen that it was changed
            one = node.end()
            await one.follow(makes=False, likeness=likeness)
            assert await one.wants(0) == stream.Unmade(0)
            maker, first = await node.maker(likeness=likeness)
            assert first == 0
            for index in range(30):  # memory has room for eight: the disk has some, too
                await maker.publish(index)
                assert await one.wants(index) == batch(index)
            checkpoint = sealed_memory.sealed(b"behind 30")
            await maker.say(stream.Checkpoint(30, 9), checkpoint)
            os.close(checkpoint)
            late = node.end()
            await late.follow(makes=False, likeness=likeness)
            assert await late.wants(29) == batch(29)
            assert await late.wants(0) in (batch(0), stream.Behind(0)), "others are there: it is as they are"
            await _all_leave(node, one, late, maker)


async def _all_leave(node: Node, *ends: End) -> None:
    for end in ends:
        end.close()
    while node.members:
        await asyncio.sleep(0.01)


@on_loop
async def test_two_that_begin_anew_get_nothing_of_later_passes_either(tmp_path: Path) -> None:
    """Pass 0 was forgotten a minute after it; what was made of pass 1 by whoever was there is still kept."""
    async with node_in(tmp_path) as node:
        before = node.end()
        await before.follow(makes=False, pass_=1)
        assert await before.wants(0) == stream.Unmade(0)
        maker, _ = await node.maker(pass_=1)
        await maker.publish(0)
        await _all_leave(node, before, maker)
        one, two = node.end(), node.end()
        await one.follow(makes=False)
        assert await one.wants(0) == stream.Unmade(0)
        await two.follow(makes=False, pass_=1)
        assert await two.wants(0) == stream.Unmade(0)


@on_loop
async def test_who_has_asked_before_does_not_begin_anew_where_the_maker_was_quick(tmp_path: Path) -> None:
    """All that there is has been made, and its maker has left, before who had asked to have them made asks again."""
    async with node_in(tmp_path) as node:
        one = node.end()
        await one.follow(makes=False)
        assert await one.wants(0) == stream.Unmade(0)
        maker, _ = await node.maker()
        await maker.publish(0)
        await maker.say(stream.Over(1))
        maker.close()
        while node.members > 1:
            await asyncio.sleep(0.01)
        assert await one.wants(0) == batch(0)
        assert await one.wants(1) == stream.Over(1)


@on_loop
async def test_who_was_there_before_goes_on_with_what_others_made_who_have_left(tmp_path: Path) -> None:
    """The slowest of all, in its next epoch; or who looks at other data between two epochs."""
    async with node_in(tmp_path) as node:
        slow, fast = node.end(), node.end()
        await slow.follow(makes=False)
        await fast.follow(makes=False, process=2)
        assert await slow.wants(0) == await fast.wants(0) == stream.Unmade(0)
        next_ = node.end()
        await next_.follow(makes=False, pass_=1, process=2)
        assert await next_.wants(0) == stream.Unmade(0)
        maker, _ = await node.maker(pass_=1)
        await maker.publish(0)
        await _all_leave(node, slow, fast, next_, maker)
        slow = node.end()
        await slow.follow(makes=False, pass_=1)
        assert await slow.wants(0) == batch(0)
        await _all_leave(node, slow)
        new = node.end()
        await new.follow(makes=False, pass_=1, process=3)
        assert await new.wants(0) == stream.Unmade(0), "of no process that was there"


async def _sends(node: Node, kind: str) -> frames.Frame | None:
    maker, _ = await node.maker()
    data = batch(0)
    descriptors = [sealed_memory.sealed(data)]
    length_bytes = len(data)
    if kind == "unsealed":
        os.close(descriptors.pop())
        descriptors = [sealed_memory.create()]
        os.write(descriptors[0], data)
    elif kind == "two":
        descriptors.append(os.dup(descriptors[0]))
    elif kind == "none":
        os.close(descriptors.pop())
    elif kind == "longer":
        length_bytes += 1
    elif kind == "file":
        os.close(descriptors.pop())
        descriptors = [os.open(__file__, os.O_RDONLY)]
    elif kind == "large":
        data = bytes(WINDOW_BYTES // 4 + 1)
        os.close(descriptors.pop())
        descriptors, length_bytes = [sealed_memory.sealed(data)], len(data)
    index = 7 if kind == "later" else 0
    await maker.say(stream.Publish(index, length_bytes, zlib.crc32(data)), *descriptors)
    for descriptor in descriptors:
        os.close(descriptor)
    while True:
        frame, _ = await maker.hear()
        if not isinstance(frame, stream.Room):
            return frame


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("unsealed", "not sealed"), ("two", "2 descriptors"), ("none", "without its memory"),
        ("longer", "another size"), ("file", "no memory file"), ("large", "window_bytes="),
        ("later", "where 0 was due"),
    ],
)  # fmt: skip
def test_memory_that_is_not_what_it_says_is_refused(tmp_path: Path, kind: str, said: str) -> None:
    @on_loop
    async def refused() -> None:
        async with node_in(tmp_path) as node:
            answer = await _sends(node, kind)
            assert isinstance(answer, frames.Error) and answer.fatal and said in answer.message
            maker, first = await node.maker()  # and the next one may
            assert first == 0
            await maker.publish(0)

    refused()


@on_loop
async def test_frames_out_of_turn_end_the_connection_only(tmp_path: Path) -> None:
    async with node_in(tmp_path) as node:
        for frame in (stream.Next(0), stream.Over(3), stream.Publish(0, 3, 0), stream.Batch(0, 0, 0, 0, 0)):
            one = node.end()
            await one.say(frames.Hello(frames.ROLE_STREAM, 1, ""))
            assert isinstance((await one.hear())[0], frames.Welcome)
            await one.say(frame)
            assert isinstance((await one.hear())[0], frames.Error)
        maker, _ = await node.maker()
        await maker.say(stream.Over(3))  # it has made none
        while isinstance((answer := (await maker.hear())[0]), stream.Room):
            pass
        assert isinstance(answer, frames.Error)
        assert (await node.maker())[1] == 0


@on_loop
async def test_a_trainer_that_made_them_to_the_end_is_told_whether_that_is_right(tmp_path: Path) -> None:
    async with node_in(tmp_path) as node:
        behind, ahead = node.end(), node.end()
        await behind.follow(makes=False)
        await ahead.follow(makes=False)
        assert await behind.wants(0) == stream.Unmade(0)
        maker, _ = await node.maker()
        await maker.publish(0)
        assert await ahead.wants(5) == stream.Behind(5), "it went on here after a restart of the node"
        await ahead.say(stream.Over(5))
        assert (await ahead.hear())[0] == stream.Over(5)
        await maker.publish(1)
        assert await behind.wants(1) == batch(1)
        await behind.say(stream.Over(1))
        said, _ = await behind.hear()
        assert isinstance(said, frames.Error) and "ends after 1 batches, and had 2" in said.message
