"""Draws of sampled sessions at the coordinator: decoded beside the loop, a session's at a time, for who needs them."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from tests.contract.test_weights_kept import DIGEST, KEY, asking, opening, picked, put, weights
from tests.contract.test_weights_used import read_all
from tests.support.aio import on_loop
from tests.support.coordinator_client import CoordinatorClient
from tests.support.coordinator_served import served
from tfquiver import errors
from tfquiver.messages_and_binary_formats import drawn_shards as drawn_module
from tfquiver.messages_and_binary_formats.drawn_shards import DrawnShards, drawn_shards
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.coordinator.sampled_sessions_and_uploaded_weights import samplings
from tfquiver.service.coordinator.server import CoordinatorServer
from tfquiver.service.coordinator.sessions import session as session_module


class Decodes:
    """The threads that decode, which go on when they are told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.threads, self.begun, self.go = list[threading.Thread](), threading.Event(), threading.Event()
        for module in (samplings, session_module):
            monkeypatch.setattr(module, "drawn_shards", self._decode)

    def _decode(self, message: types_pb2.DrawnShards, shards: int) -> DrawnShards:
        self.threads.append(threading.current_thread())
        self.begun.set()
        assert self.go.wait(60)
        return drawn_shards(message, shards)


def opened_as(reader_id: str, **more: object) -> pb.OpenReaderRequest:
    request = opening(knows_picks=True, **more)
    request.reader_id = reader_id
    return request


@on_loop
async def test_draws_of_a_settled_session_are_not_kept_and_not_decoded_for_who_opens_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path / "work") as (server, client):
        await client.upload([DIGEST.to_bytes()])
        await put(client, weights().to_bytes())
        await client.call("AskSampling", asking(weights().weights_id))
        opened = await client.call("OpenReader", opened_as("r"))
        await read_all(client, opened)
        session = next(iter(server.coordinator.sessions))
        assert session.settled_acked is not None
        decodes = Decodes(monkeypatch)
        decodes.go.set()
        await client.call("OpenReader", opened_as("late", session_id=opened.session_id))
        assert not decodes.threads
        assert await picked(client, opened.session_id, [0]) == [b"\x01\x01\x01"]
        assert len(decodes.threads) == 1
        assert threading.main_thread() not in decodes.threads
        assert not session.draws_known


@on_loop
async def test_after_a_restart_one_sessions_draws_are_decoded_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, sessions = [f"{at}{KEY}" for at in range(3)], dict[str, str]()
    async with served(tmp_path / "work") as (_, client):
        await client.upload([DIGEST.to_bytes()])
        await put(client, weights().to_bytes())
        for seed, key in enumerate(keys, 1):
            asked, request = asking(weights().weights_id), opened_as(key)
            asked.session_key = request.session_key = key
            asked.seed = request.seed = seed  # else they would draw alike
            await client.call("AskSampling", asked)
            sessions[key] = (await client.call("OpenReader", request)).session_id
    again, decodes = CoordinatorServer(), Decodes(monkeypatch)
    await again.start(tmp_path / "work", "localhost:0")
    async with again, CoordinatorClient.connected(f"localhost:{again.bound_port}") as client:
        asked_again = [asyncio.create_task(picked(client, sessions[key], [0])) for key in keys]
        while len(again.coordinator.samplings._decoding) < len(keys):
            await asyncio.sleep(0)
        assert await asyncio.to_thread(decodes.begun.wait, 60)
        # What the loop's pool was given with it had as long to begin.
        await asyncio.gather(*(asyncio.to_thread(len, "") for _ in range(64)))
        begun = len(decodes.threads)
        decodes.go.set()
        assert begun == 1
        assert await asyncio.gather(*asked_again) == [[b"\x01\x01\x01"]] * 3
        assert len(decodes.threads) == 3


@on_loop
async def test_sessions_that_draw_alike_have_their_draws_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a sweep, of four bytes a draw."""
    decodes = Decodes(monkeypatch)
    decodes.go.set()
    async with served(tmp_path / "work") as (server, client):
        await client.upload([DIGEST.to_bytes()])
        await put(client, weights().to_bytes())
        for key in ("a" + KEY, "b" + KEY):
            asked, request = asking(weights().weights_id), opened_as(key)
            asked.session_key = request.session_key = request.job = key
            await client.call("AskSampling", asked)
            await client.call("OpenReader", request)
        one, other = (session.draws_of(DIGEST.num_shards) for session in server.coordinator.sessions)
        assert one is other
        assert len(decodes.threads) == 1


@on_loop
async def test_draws_are_told_to_a_reader_once(tmp_path: Path) -> None:
    async with served(tmp_path / "work") as (_, client):
        await client.upload([DIGEST.to_bytes()])
        await put(client, weights().to_bytes())
        await client.call("AskSampling", asking(weights().weights_id))
        opened = await client.call("OpenReader", opened_as("r"))
        assert opened.drawn.shards_zlib
        again = await client.call("OpenReader", opened_as("r", session_id=opened.session_id, has_drawn=True))
        assert not again.HasField("drawn")
        assert again.shards == opened.shards


@on_loop
async def test_a_node_that_reads_fewer_draws_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawn_module, "MOST_DRAWS_EARLIER", 1)
    async with served(tmp_path / "work") as (_, client):
        await client.upload([DIGEST.to_bytes()])
        await put(client, weights().to_bytes())
        await client.call("AskSampling", asking(weights().weights_id))
        with pytest.raises(errors.InvalidArgumentError, match="too old for more than 1: start it again"):
            await client.call("OpenReader", opened_as("r"))
        opened = await client.call("OpenReader", opened_as("r", most_draws=1 << 23))
        assert opened.shards > 1
