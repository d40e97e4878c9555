from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.support.aio import on_loop
from tfquiver import errors
from tfquiver.service.node.reading_the_object_store.hedging import Hedges
from tfquiver.service.node.shards_from_disk_other_nodes_or_store.first_answer import Ask, first_answer

USUAL_S = 0.01


class Some:
    """Those who are asked answer or fail when they are told to."""

    def __init__(self) -> None:
        self.hedges = Hedges()
        for _ in range(64):
            self.hedges.came(USUAL_S)
        self.answers: dict[str, asyncio.Future[str]] = {}  # of those that were asked
        self.asked = asyncio.Condition()
        self.failed: list[int] = []
        self.let_go: list[str] = []

    def ask(self, name: str) -> Ask[str]:
        async def asked() -> str:
            answer = self.answers[name] = asyncio.get_running_loop().create_future()
            async with self.asked:
                self.asked.notify_all()
            return await answer

        return asked

    async def until(self, *names: str) -> None:
        async with asyncio.timeout(10), self.asked:
            await self.asked.wait_for(lambda: set(names) <= self.answers.keys())

    def first(
        self, names: str, instead: str = "", instead_after_s: float = 0.0, at_once: int | None = None
    ) -> Coroutine[Any, Any, str | None]:
        return first_answer(
            [self.ask(name) for name in names],
            self.ask(instead) if instead else None,
            self.hedges,
            lambda which, _: self.failed.append(which),
            self.let_go.append,
            instead_after_s,
            at_once,
        )


@on_loop
async def test_one_that_answers_in_time_is_the_only_one_asked() -> None:
    some = Some()
    first = asyncio.create_task(some.first("ab", "s"))
    await some.until("a")
    some.answers["a"].set_result("from a")
    assert await first == "from a"
    assert list(some.answers) == ["a"]


@pytest.mark.parametrize("wins", ["a", "b"])
@on_loop
async def test_a_late_one_is_joined_by_the_next_and_the_first_answer_counts(wins: str) -> None:
    some = Some()
    first = asyncio.create_task(some.first("abc", "s"))
    await some.until("a", "b")
    some.answers[wins].set_result("the answer")
    assert await first == "the answer"
    await asyncio.sleep(0)
    loser = {"a": "b", "b": "a"}[wins]
    assert some.answers[loser].cancelled()
    assert list(some.answers) == ["a", "b"]
    assert some.failed == []


@on_loop
async def test_one_in_another_rack_joins_a_late_one_as_late_as_the_store_does() -> None:
    some, after_s = Some(), 0.3
    began_s = asyncio.get_running_loop().time()
    first = asyncio.create_task(some.first("af", "s", after_s, at_once=1))
    await some.until("a", "f")
    assert asyncio.get_running_loop().time() - began_s >= after_s
    some.answers["f"].set_result("from afar")
    assert await first == "from afar"
    some = Some()
    near = asyncio.create_task(some.first("anf", "s", 60.0, at_once=2))
    await some.until("a", "n")
    some.answers["n"].set_result("from nearby")
    assert await near == "from nearby"


@on_loop
async def test_where_nobody_is_left_the_store_joins_and_what_it_says_wrong_is_not_told() -> None:
    some = Some()
    first = asyncio.create_task(some.first("a", "s"))
    await some.until("a", "s")
    some.answers["s"].set_exception(errors.UnavailableError("the store"))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not first.done()
    some.answers["a"].set_result("late")
    assert await first == "late"
    assert some.failed == []


@on_loop
async def test_who_fails_is_followed_by_the_next_and_none_is_left_in_the_end() -> None:
    some = Some()
    first = asyncio.create_task(some.first("ab"))
    await some.until("a")
    some.answers["a"].set_exception(errors.UnavailableError("gone"))
    await some.until("b")
    some.answers["b"].set_exception(TimeoutError())
    assert await first is None
    assert some.failed == [0, 1]


@on_loop
async def test_what_both_bring_is_given_up_once() -> None:
    some = Some()
    first = asyncio.create_task(some.first("ab"))
    await some.until("a", "b")
    some.answers["a"].set_result("one")
    some.answers["b"].set_result("two")
    answer = await first
    await asyncio.sleep(0)
    assert sorted([answer, *some.let_go]) == ["one", "two"]


@on_loop
async def test_the_store_waits_longer_than_another_owner() -> None:
    some = Some()
    late = first_answer(
        [some.ask("a")], some.ask("s"), some.hedges, lambda *_: None, some.let_go.append, 100 * USUAL_S
    )  # fmt: skip
    first = asyncio.create_task(late)
    began_s = asyncio.get_running_loop().time()
    await some.until("s")
    assert asyncio.get_running_loop().time() - began_s >= 100 * USUAL_S
    some.answers["s"].set_result("from s")
    assert await first == "from s"


@on_loop
async def test_no_more_than_a_hundredth_are_joined() -> None:
    """All are late: of two hundred two, and the one that was saved."""
    some = Some()
    waiting = [asyncio.create_task(some.first("a", f"s{number}")) for number in range(200)]
    async with asyncio.timeout(30), some.asked:  # all have been late since when the last of them is
        await some.asked.wait_for(lambda: any(name.startswith("s") for name in some.answers))
    await asyncio.sleep(20 * USUAL_S)
    stores = [name for name in some.answers if name.startswith("s")]
    assert 1 <= len(stores) <= 3
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


@on_loop
async def test_when_nobody_waits_any_more_those_who_were_asked_are_cancelled() -> None:
    some = Some()
    first = asyncio.create_task(some.first("ab"))
    await some.until("a", "b")
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    await asyncio.sleep(0)
    assert all(answer.cancelled() for answer in some.answers.values())
