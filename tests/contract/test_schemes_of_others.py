"""Sampling schemes of other packages at the coordinator, which lives on whatever they do."""

from __future__ import annotations

import asyncio
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_served import served
from tests.support.digests import numbered_digest
from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs import registry
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.chance import Chance
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.interface import Draws, Population

DIGEST = numbered_digest(20)


class Exits:
    def draw(self, population: Population, epoch: int, chance: Chance) -> Draws:
        raise SystemExit(3)


class GivesUp:
    """As what it asked of an event loop of its own was given up."""

    def __init__(self) -> None:
        raise asyncio.CancelledError


class _Trap:
    """No array: an exception for who makes one of it. A future takes no StopIteration."""

    def __init__(self, kind: type[Exception]) -> None:
        self._kind = kind

    def __array__(self, *_: object, **__: object) -> object:
        raise self._kind("no array")


class TrapsWhoLooks:
    def draw(self, population: Population, epoch: int, chance: Chance) -> Draws:
        return Draws(_Trap(StopIteration))


class TrapsInItsStages:
    def draw(self, population: Population, epoch: int, chance: Chance) -> Draws:
        return Draws([1, 2], _Trap(RuntimeError))


@pytest.mark.parametrize(
    ("scheme", "said"),
    [
        (Exits, "sampling scheme theirs: SystemExit: 3"),
        (GivesUp, "sampling scheme theirs: CancelledError: "),
        (TrapsWhoLooks, "sampling scheme theirs: StopIteration: no array"),
        (TrapsInItsStages, "sampling scheme theirs: RuntimeError: no array"),
    ],
)
@on_loop
async def test_one_that_ends_what_it_runs_in_is_refused(
    scheme: type, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = [EntryPoint("theirs", f"{__name__}:{scheme.__name__}", registry.GROUP)]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    async with served(tmp_path / "work") as (_, client):
        await client.upload([DIGEST.to_bytes()])
        asking = pb.AskSamplingRequest(
            session_key="key~theirs", digest_id=DIGEST.digest_id, scheme="theirs", arguments="{}", seed=3
        )
        for _ in range(2):
            with pytest.raises(errors.InvalidArgumentError, match=said):
                await client.call("AskSampling", asking)
        asking.scheme, asking.arguments = "with_replacement", "{}"
        assert (await client.call("AskSampling", asking)).draws == 20
