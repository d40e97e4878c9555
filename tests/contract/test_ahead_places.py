"""How much a mount fetches ahead at a time. On trio's own loop and clock, nothing mocked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

trio = pytest.importorskip("trio")
pytest.importorskip("trio.testing")

from tfquiver.mounting.reading_ahead.ahead_places import AheadPlaces  # noqa: E402


class Fetched:
    """Each holds a place until it is let go."""

    def __init__(self, places: AheadPlaces) -> None:
        self.places = places
        self.under_way: list[str] = []
        self.ends: dict[str, trio.Event] = {}
        self.scopes: dict[str, trio.CancelScope] = {}

    async def fetch(self, name: str, size_bytes: int) -> None:
        self.ends[name] = trio.Event()
        with trio.CancelScope() as self.scopes[name]:
            async with self.places.place(size_bytes):
                self.under_way.append(name)
                try:
                    await self.ends[name].wait()
                finally:
                    self.under_way.remove(name)


def run(most: int, most_bytes: int, test: Callable[[Fetched, trio.Nursery], Awaitable[None]]) -> None:
    async def main() -> None:
        fetched = Fetched(AheadPlaces(most, most_bytes))
        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                await test(fetched, nursery)
                nursery.cancel_scope.cancel()
            assert not fetched.under_way

    trio.run(main)


async def begin(fetched: Fetched, nursery: trio.Nursery, **sizes: int) -> None:
    for name, size_bytes in sizes.items():
        nursery.start_soon(fetched.fetch, name, size_bytes)
        await trio.testing.wait_all_tasks_blocked()


def test_no_more_than_the_bytes_and_in_order() -> None:
    async def test(fetched: Fetched, nursery: trio.Nursery) -> None:
        await begin(fetched, nursery, a=4, b=5, c=3, d=1)
        assert fetched.under_way == ["a", "b"], "d would fit, and waits behind c"
        fetched.ends["a"].set()
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(fetched.under_way) == ["b", "c", "d"]

    run(16, 10, test)


def test_no_more_than_so_many_and_what_is_too_large_alone() -> None:
    async def test(fetched: Fetched, nursery: trio.Nursery) -> None:
        await begin(fetched, nursery, a=1, b=1, c=1, large=99)
        assert fetched.under_way == ["a", "b"]
        for name in ("a", "b", "c"):
            fetched.ends[name].set()
        await trio.testing.wait_all_tasks_blocked()
        assert fetched.under_way == ["large"]

    run(2, 10, test)


def test_nothing_ahead_is_still_one_at_a_time() -> None:
    async def test(fetched: Fetched, nursery: trio.Nursery) -> None:
        await begin(fetched, nursery, a=1, b=1)
        assert fetched.under_way == ["a"]

    run(16, 0, test)


def test_who_gives_up_waiting_holds_nobody() -> None:
    async def test(fetched: Fetched, nursery: trio.Nursery) -> None:
        await begin(fetched, nursery, a=6, b=9, c=4)
        assert fetched.under_way == ["a"]
        fetched.scopes["b"].cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert fetched.under_way == ["a", "c"]

    run(16, 10, test)


def test_who_gives_up_as_it_is_let_in_gives_its_place_back() -> None:
    async def test(fetched: Fetched, nursery: trio.Nursery) -> None:
        await begin(fetched, nursery, a=10, b=10, c=10)
        fetched.scopes["b"].cancel()
        fetched.ends["a"].set()  # in the same turn
        await trio.testing.wait_all_tasks_blocked()
        assert fetched.under_way == ["c"]
        fetched.ends["c"].set()
        await begin(fetched, nursery, d=10)
        assert fetched.under_way == ["d"], "no place was lost"

    run(16, 10, test)


def test_where_there_is_more_room_who_waits_is_let_in_at_once() -> None:
    async def test(fetched: Fetched, nursery: trio.Nursery) -> None:
        await begin(fetched, nursery, a=6, b=9, c=4)
        assert fetched.under_way == ["a"]
        fetched.places.resize(19)
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(fetched.under_way) == ["a", "b", "c"]

    run(16, 10, test)
