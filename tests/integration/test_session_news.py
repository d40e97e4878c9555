"""What a dispatcher is told of sessions by a real coordinator."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc
import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_client import CoordinatorClient, Reader
from tests.support.digests import numbered_digest
from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.service.coordinator.options import CoordinatorOptions
from tfquiver.service.coordinator.server import CoordinatorServer
from tfquiver.service.dispatcher.lost_workers_and_leftover_tasks.session_news import CoordinatorNews, UnreadKeys

DIGEST = numbered_digest(3)
OTHERS = [f"{number:032x}" for number in range(1000)]  # what looks like a key, and is none


@on_loop
async def test_which_keys_are_unread_and_which_nobody_reads(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/socket"
    server = CoordinatorServer()
    await server.start(tmp_path / "work", address, None, CoordinatorOptions())
    async with server, CoordinatorClient.connected(address) as client:
        news = CoordinatorNews(address, "", 5050)
        await client.upload([DIGEST.to_bytes()])
        await client.beat()

        async def quiet(*keys: str) -> bool:
            return await asyncio.to_thread(news.quiet, keys, 0.0)

        async def reader(name: str) -> Reader:
            return Reader(client, await client.ticket(DIGEST, f"p:{name}"), DIGEST, name)

        broken_off = await reader("broken off")
        await broken_off.open()
        assert not await quiet("key")
        await broken_off.leave()
        assert not await quiet("key", *OTHERS), "no session of the key has ended"
        await (await reader("whole")).read(2, lambda _: None)
        assert await quiet("key")
        assert await quiet(OTHERS[0], "key", *OTHERS), "a graph may hold many words that look like a key"
        assert not await quiet(*OTHERS)
        assert await asyncio.to_thread(news.unread) == UnreadKeys()

        async def starving(**clients: int) -> bool:
            return await asyncio.to_thread(news.starving, clients, 0.0)

        waiting = pb.ReportWaitingRequest(session_key="key", pipeline="p", iterators=2, dispatcher_port=5050)
        assert not await starving(key=1), "nobody says that it waits"
        await client.call("ReportWaiting", waiting)
        assert await starving(key=2) and await starving(key=1, another=1), "of the other one there is no session"
        assert not await starving(key=3) and not await starving(key=0) and not await starving(another=1)
        waiting.dispatcher_port = 5051
        await client.call("ReportWaiting", waiting)
        assert not await starving(key=1), "of another dispatcher"
        for more in (pb.ReportWaitingRequest(session_key="key"), pb.ReportWaitingRequest(pipeline="p")):
            with pytest.raises(errors.InvalidArgumentError, match="missing"):
                await client.call("ReportWaiting", more)
        short = await reader("short")
        await short.open()
        assert len((await short.lease(3)).leases) == 3
        assert (await short.lease(1, draining=True)).state == pb.LeaseReply.STATE_END
        assert not await quiet("key")
        await short.leave()
        assert await asyncio.to_thread(news.unread) == UnreadKeys(short=frozenset({"key"}))
        news.close()


def test_a_coordinator_that_does_not_answer_says_nothing(tmp_path: Path) -> None:
    news = CoordinatorNews(f"unix:{tmp_path}/socket", "", 5050)
    news.check_token()  # nobody says that it is wrong
    for ask in (news.unread, lambda: news.quiet(["key"], 0.0), lambda: news.starving({"key": 1}, 0.0)):
        with pytest.raises(grpc.RpcError):
            ask()
    news.close()
