"""What sessions of large data sets share is made in a thread, on a real loop."""

from __future__ import annotations

import asyncio
import threading

from tests.support.aio import on_loop
from tfquiver.service.coordinator.long_work.in_thread import InThread
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.made_orders import MADE_AT_ONCE, MadeOrders

KEY = (b"data set", "order", 1, 2)


@on_loop
async def test_what_cannot_be_made_is_not_tried_again_at_once() -> None:
    """Readers that are woken ask again at once: each of them would have a thread try for ever."""
    tried, made_for = 0, list[bytes]()

    def make() -> str:
        nonlocal tried
        tried += 1
        if tried <= 2:
            raise MemoryError("no room")
        return "the order"

    def wake(digest_id: bytes) -> None:
        made_for.append(digest_id)
        made.get(KEY, MADE_AT_ONCE + 1, make)  # as a reader does that is woken

    made = MadeOrders(InThread().run, wake)
    assert made.get(KEY, MADE_AT_ONCE + 1, make) is None
    await asyncio.sleep(0.2)
    assert tried == 1 and not made_for
    async with asyncio.timeout(5):
        while made.get(KEY, MADE_AT_ONCE + 1, make) is None:  # its readers' own time to ask is over
            await asyncio.sleep(0.01)
    assert tried == 3 and made_for == [KEY[0]]


@on_loop
async def test_many_who_ask_for_one_order_have_it_made_once() -> None:
    go, tried = threading.Event(), list[int]()

    def make() -> str:
        tried.append(1)
        assert go.wait(5)
        return "the order"

    woken = asyncio.Event()
    made = MadeOrders(InThread().run, lambda _: woken.set())
    assert [made.get(KEY, MADE_AT_ONCE + 1, make) for _ in range(100)] == [None] * 100
    go.set()
    async with asyncio.timeout(5):
        await woken.wait()
    assert made.get(KEY, MADE_AT_ONCE + 1, make) == "the order" and len(tried) == 1
