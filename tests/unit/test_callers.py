"""A node asks the coordinator who shows a token, and remembers it."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.aio import on_loop
from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.roles_and_tokens.identity import EVERYBODY, Identity, Role
from tfquiver.roles_and_tokens.tokens import hash_of
from tfquiver.service.node.coordinator_link import callers
from tfquiver.service.node.coordinator_link.callers import Callers


class Coordinator:
    """Knows the token "known" as a job's."""

    def __init__(self) -> None:
        self.asked, self.away, self.open, self.now = 0, False, False, 1000.0
        self.known = {hash_of("known"): pb.IdentifyReply(role=pb.ROLE_JOB, name="sweep")}
        self.callers = Callers("own", self.identify, lambda: self.now)

    async def identify(self, request: pb.IdentifyRequest, within_s: float) -> pb.IdentifyReply:
        self.asked += 1
        if self.away:
            raise errors.UnavailableError("away")
        if self.open:
            return pb.IdentifyReply(open=True)
        if request.token_sha256 not in self.known:
            raise errors.NotFoundError("nobody's")
        return self.known[request.token_sha256]


@on_loop
async def test_who_is_known_is_asked_for_once_a_minute() -> None:
    world = Coordinator()
    for _ in range(3):
        assert await world.callers.identify("known") == Identity(Role.JOB, "sweep")
    assert world.asked == 1
    world.now += 61
    world.known.clear()
    with pytest.raises(errors.UnauthenticatedError):
        await world.callers.identify("known")


@on_loop
async def test_wrong_tokens_do_not_drive_out_who_is_known() -> None:
    """Else whoever sends many could shut all out as soon as the coordinator is away."""
    world = Coordinator()
    assert await world.callers.identify("known") == Identity(Role.JOB, "sweep")
    for number in range(callers._MOST_KEPT + 10):
        with pytest.raises(errors.UnauthenticatedError):
            await world.callers.identify(f"wrong {number}")
    world.away = True
    assert await world.callers.identify("known") == Identity(Role.JOB, "sweep")


@on_loop
async def test_who_shows_nothing_is_not_asked_for() -> None:
    world = Coordinator()
    with pytest.raises(errors.UnauthenticatedError):
        await world.callers.identify("")
    assert world.asked == 0


@on_loop
async def test_a_wrong_token_may_be_right_soon() -> None:
    world = Coordinator()
    for _ in range(3):
        with pytest.raises(errors.UnauthenticatedError):
            await world.callers.identify("new")
    assert world.asked == 1
    world.known[hash_of("new")] = pb.IdentifyReply(role=pb.ROLE_NODE, name="rack1")
    world.now += 6
    assert await world.callers.identify("new") == Identity(Role.NODE, "rack1")


@on_loop
async def test_who_was_known_stays_known_while_the_coordinator_is_away() -> None:
    world = Coordinator()
    await world.callers.identify("known")
    world.away, world.now = True, world.now + 3600
    assert await world.callers.identify("known") == Identity(Role.JOB, "sweep")
    with pytest.raises(errors.UnavailableError):
        await world.callers.identify("stranger")


@on_loop
async def test_where_no_token_is_asked_for_callers_show_the_nodes_own() -> None:
    world = Coordinator()
    world.open = True
    assert await world.callers.identify("own") == EVERYBODY
    with pytest.raises(errors.UnauthenticatedError):
        await world.callers.identify("known")


@on_loop
async def test_a_role_that_is_not_known_is_nobody() -> None:
    world = Coordinator()
    world.known[hash_of("later")] = pb.IdentifyReply(role=9, name="x")  # type: ignore[arg-type]
    with pytest.raises(errors.UnauthenticatedError):
        await world.callers.identify("later")


@on_loop
async def test_those_who_come_together_ask_once() -> None:
    world = Coordinator()
    found = await asyncio.gather(*(world.callers.identify("known") for _ in range(20)))
    assert set(found) == {Identity(Role.JOB, "sweep")}
    assert world.asked == 1


@on_loop
async def test_the_memory_is_bounded() -> None:
    world = Coordinator()
    for number in range(5000):
        with pytest.raises(errors.UnauthenticatedError):
            await world.callers.identify(f"wrong {number}")
    assert len(world.callers._kept) <= 4096
