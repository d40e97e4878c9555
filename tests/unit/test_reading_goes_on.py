"""Whatever befalls jobs that read, who waits is woken when there is something for it, and all come to their end."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.reading_world import MODES, JobReader, ReadingWorld

ROTATIONS = ("relevance", "cyclic")
EVENTS, TURNS = 200, 4000


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 1 << 32), shards=st.integers(12, 60), jobs=st.integers(1, 3), readers=st.integers(1, 2))
def test_probes_budgets_and_settings_that_change_leave_nobody_waiting(
    seed: int, shards: int, jobs: int, readers: int
) -> None:
    rng = random.Random(seed)
    world = ReadingWorld(shards, seed, jobs, readers, rng.choice(("", *ROTATIONS)))
    events = {
        "lease": 8.0, "arrive": 5.0, "emit": 5.0, "acknowledge": 3.0, "obey": 3.0, "wait": 2.0, "probe": 1.0,
        "leave": 0.5, "lose": rng.choice((0.0, 1.0)), "allocate": rng.choice((0.0, 0.5)),
        "set": rng.choice((0.0, 0.3)),
    }  # fmt: skip
    for event in rng.choices(list(events), list(events.values()), k=EVENTS):
        _befall(world, event, rng.choice(world.readers), rng)
    world.finish(TURNS)


def _befall(world: ReadingWorld, event: str, reader: JobReader, rng: random.Random) -> None:
    some = rng.randrange(1, 13)
    match event:
        case "lease":
            world.lease(reader, some, rng.choice((1, 300, 1 << 40)))
        case "arrive":
            world.arrive(reader, some)
        case "emit":
            world.emit(reader, some)
        case "acknowledge":
            world.acknowledge(reader)
        case "obey":
            world.obey(some)
        case "wait":
            world.tick(rng.choice((0.05, 0.05, 1.0, 40.0)))
        case "probe":
            world.probe(reader.job, rng.random() < 0.5)
        case "leave" if not reader.ended:
            world.leave(reader)
        case "lose":
            world.cached.hold(rng.sample(range(12), rng.randrange(9)), rng.random() < 0.5)
        case "allocate":
            world.allocate(reader.job, rng.choice((0.0, 100.0, 5000.0)))
        case "set":
            world.set_mode(rng.choice(("", *MODES, *ROTATIONS)), rng.choice((0.0, 0.5, 1.0)))
