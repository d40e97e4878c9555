"""What callers send in parts: the time that they have, and whose it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.support.aio import on_loop
from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.roles_and_tokens.identity import EVERYBODY, Identity, Role
from tfquiver.service.coordinator.grpc_calls import uploads

FIRST = pb.RegisterDatasetRequest(size_bytes=1 << 30)


async def parts(size_bytes: int, every_s: float, count: int) -> AsyncIterator[pb.RegisterDatasetRequest]:
    for _ in range(count):
        await asyncio.sleep(every_s)
        yield pb.RegisterDatasetRequest(part=bytes(size_bytes))


@pytest.mark.parametrize("size_bytes", [0, 1])
@on_loop
async def test_parts_that_bring_nothing_give_no_more_time(monkeypatch: pytest.MonkeyPatch, size_bytes: int) -> None:
    """One each 30 s kept what it had announced for half an hour."""
    monkeypatch.setattr(uploads, "UPLOAD_PART_S", 0.2)
    with pytest.raises(errors.DeadlineError, match="the next 65536 bytes, or the end, did not come in time"):
        async with asyncio.timeout(20):
            async for _ in uploads.parts_of(FIRST, parts(size_bytes, 0.02, 1000)):
                pass


@on_loop
async def test_who_goes_on_sending_has_time_and_what_the_taker_needs_is_not_his(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(uploads, "UPLOAD_PART_S", 0.6)
    came_bytes = 0
    async for part in uploads.parts_of(FIRST, parts(uploads.RENEWED_BY_BYTES, 0.2, 5)):
        came_bytes += len(part)
        await asyncio.sleep(0.2)
    assert came_bytes == 5 * uploads.RENEWED_BY_BYTES


def test_who_has_a_name_is_one_sender_wherever_he_is_and_others_are_those_of_a_machine() -> None:
    ann, node = Identity(Role.JOB, "ann"), Identity(Role.NODE, "n")
    assert uploads.sender(ann, "ipv4:10.0.0.1:5") == uploads.sender(ann, "ipv4:10.0.0.2:5")
    for who in (EVERYBODY, node):
        assert uploads.sender(who, "ipv4:10.0.0.1:5") == uploads.sender(who, "ipv4:10.0.0.1:6")
        assert uploads.sender(who, "ipv4:10.0.0.1:5") != uploads.sender(who, "ipv4:10.0.0.2:5")
