from __future__ import annotations

import asyncio
import threading
from functools import partial

import pytest

from tests.support.aio import on_loop
from tfquiver.service.node.dataset_scans.fair_queue import FairQueue


@on_loop
async def test_owners_take_turns_however_much_one_has_queued() -> None:
    queue, order, gate = FairQueue(1, "test"), [], threading.Event()

    def call(name: str) -> None:
        gate.wait()
        order.append(name)

    large = queue.run("large", (partial(call, "large") for _ in range(100)))
    small = queue.run("small", (partial(call, "small") for _ in range(3)))
    both = asyncio.gather(large, small)
    await asyncio.sleep(0)
    gate.set()
    await both
    assert [at for at, name in enumerate(order) if name == "small"][-1] <= 6
    assert (order.count("large"), order.count("small")) == (100, 3)
    await queue.close()


@on_loop
async def test_the_first_failure_ends_an_owners_calls_and_nobody_elses() -> None:
    queue, made = FairQueue(2, "test"), []

    def call(name: str, at: int) -> None:
        made.append(name)
        if name == "bad" and at == 3:
            raise ValueError("the third")

    good = asyncio.create_task(queue.run("good", (partial(call, "good", at) for at in range(50))))
    with pytest.raises(ValueError, match="the third"):
        await queue.run("bad", (partial(call, "bad", at) for at in range(1000)))
    await good
    assert made.count("good") == 50
    assert made.count("bad") < 20
    await queue.run("nothing", iter(()))
    await queue.close()


@on_loop
async def test_one_that_is_cancelled_leaves_the_line() -> None:
    queue, made, gate = FairQueue(1, "test"), [], threading.Event()

    def call(at: int) -> None:
        gate.wait()
        made.append(at)

    task = asyncio.create_task(queue.run("gone", (partial(call, at) for at in range(1000))))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    gate.set()
    await queue.run("next", iter([partial(call, -1)]))
    assert made in ([0, -1], [-1])
    await queue.close()
