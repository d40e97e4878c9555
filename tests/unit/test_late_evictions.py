"""What was emptied while a node was away goes when it is back, once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.service.node.removed_and_leftover_data import late_evictions
from tfquiver.service.node.removed_and_leftover_data.late_evictions import LateEvictions

A, B = b"a" * 32, b"b" * 32


class Node:
    """`restarted` gives one that goes on in the same directory."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.gone = directory, list[bytes]()
        self.fails: errors.TfquiverError | None = None
        self.late: LateEvictions | None = None

    async def restarted(self) -> LateEvictions:
        if self.late:
            await self.late.close()
        self.late = LateEvictions(self.directory, self.give_up)
        await self.late.start()
        return self.late

    async def told(self, *named: tuple[bytes, str]) -> list[bytes]:
        """What goes for that."""
        assert self.late
        self.gone.clear()
        self.late.told([pb.NamedDigest(digest_id=digest_id, evicted=task) for digest_id, task in named])
        await self.late.carry_out()
        return list(self.gone)

    async def give_up(self, digest_ids: Sequence[bytes]) -> None:
        if self.fails:
            raise self.fails
        self.gone += digest_ids


@on_loop
async def test_once_for_each_eviction_and_not_what_was_carried_out(tmp_path: Path) -> None:
    node = Node(tmp_path)
    late = await node.restarted()
    assert await node.told((A, "x/1"), (B, "")) == [A]
    await late.done("y/4", [B])
    assert await node.told((A, "x/1"), (B, "y/4")) == []
    late = await node.restarted()
    assert await node.told((A, "x/1"), (B, "y/4")) == []
    assert await node.told((A, ""), (B, "y/4")) == [], "it was read since"
    assert await node.told((A, "x/7"), (B, "z/4")) == [A, B]
    await late.close()


@on_loop
async def test_what_another_name_keeps_stays(tmp_path: Path) -> None:
    node = Node(tmp_path)
    late = await node.restarted()
    assert await node.told((A, "x/1"), (A, "")) == []
    assert await node.told((A, "x/1")) == [A]
    await late.close()


@on_loop
async def test_a_disk_that_refuses_is_asked_again_and_what_was_removed_is_not(tmp_path: Path) -> None:
    node = Node(tmp_path)
    late = await node.restarted()
    node.fails = errors.ResourceExhaustedError("read-only")
    with pytest.raises(errors.ResourceExhaustedError):
        await node.told((A, "x/1"))
    node.fails = errors.NotFoundError("removed")
    assert await node.told((A, "x/1")) == []
    node.fails = None
    assert await node.told((A, "x/1")) == []
    await late.close()


@on_loop
async def test_notes_are_of_what_has_a_name_and_damaged_ones_are_begun_anew(tmp_path: Path) -> None:
    node = Node(tmp_path)
    late = await node.restarted()
    await node.told((A, "x/1"))
    await node.told((B, "y/1"))
    assert (tmp_path / late_evictions.FILE).read_text() == f"{B.hex()} y/1\n"
    await late.close()
    (tmp_path / late_evictions.FILE).write_bytes(b"\xff\x00 zz\n")
    await node.restarted()
    assert await node.told((B, "y/1")) == [B]
    assert node.late
    await node.late.close()
