"""`ListSessions` in pages: every session once, newest first, whatever comes and goes between two calls."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_client import CoordinatorClient, new_coordinator
from tests.support.digests import numbered_digest
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.service.coordinator.grpc_calls.about_sessions_jobs_plans_past import listing_calls

DIGEST = numbered_digest(20, "data")


@asynccontextmanager
async def coordinator(directory: Path) -> AsyncIterator[CoordinatorClient]:
    """One that knows DIGEST."""
    async with new_coordinator(directory) as client:
        await client.upload([DIGEST.to_bytes()], name="data")
        yield client


async def begin(client: CoordinatorClient, number: int, key: str = "") -> None:
    request = pb.TicketRequest(session_key=key or f"{number:03}".ljust(400, "x"), provider_id="p", repetition=number)
    request.digest_id = DIGEST.digest_id
    await client.call("Ticket", request)


def numbers(reply: pb.ListSessionsReply) -> list[int]:
    return [int(info.session_key[:3]) for info in reply.sessions]


@on_loop
async def test_each_session_is_in_one_page(tmp_path: Path) -> None:
    async with coordinator(tmp_path) as client:
        for number in range(30):
            await begin(client, number)
        whole = await client.call("ListSessions", pb.ListSessionsRequest())
        assert numbers(whole) == list(range(29, -1, -1))
        assert not whole.next_page
        listed, request, replies = list[int](), pb.ListSessionsRequest(page_bytes=2000), 0
        while True:
            reply = await client.call("ListSessions", request)
            assert reply.ByteSize() < 2000 + 1000
            listed += numbers(reply)
            replies += 1
            if not reply.next_page:
                break
            request.page = reply.next_page
            await begin(client, 100 + replies)
        assert listed == list(range(29, -1, -1))
        assert 5 < replies < 15


@on_loop
async def test_of_one_key_and_up_to_a_limit(tmp_path: Path) -> None:
    async with coordinator(tmp_path) as client:
        for number in range(6):
            await begin(client, number, key="key" if number % 2 else "other")
        request = pb.ListSessionsRequest(session_key="key", limit=2)
        first = await client.call("ListSessions", request)
        request.page = first.next_page
        second = await client.call("ListSessions", request)
        whole = await client.call("ListSessions", pb.ListSessionsRequest(session_key="key"))
        listed = [one.session_id for one in (*first.sessions, *second.sessions)]
        assert listed == [one.session_id for one in whole.sessions]
        assert (len(first.sessions), len(second.sessions), second.next_page) == (2, 1, 0)


@on_loop
async def test_they_are_counted_without_a_list(tmp_path: Path) -> None:
    """Readers of an epoch that is gone on with ask until all have come: each was told of each, again and again."""
    async with coordinator(tmp_path) as client:
        for number in range(6):
            await begin(client, number, key="other" if number == 2 else "key")
        for limit, count in ((0, 5), (4, 4), (5, 5), (6, 5)):
            request = pb.ListSessionsRequest(session_key="key", limit=limit, count_only=True)
            reply = await client.call("ListSessions", request)
            assert (reply.count, len(reply.sessions)) == (count, 0)


@on_loop
async def test_no_page_is_larger_than_the_coordinator_likes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing_calls, "MOST_PAGE_BYTES", 2000)
    async with coordinator(tmp_path) as client:
        for number in range(10):
            await begin(client, number)
        reply = await client.call("ListSessions", pb.ListSessionsRequest(page_bytes=2**32 - 1))
        assert reply.next_page
        assert reply.ByteSize() < 3000
