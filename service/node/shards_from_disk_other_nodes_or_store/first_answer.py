"""One answer from several who may have it: the next is asked when one fails, and, within a budget, when one is late:
then the first answer counts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from tfquiver import errors
from tfquiver.service.node.reading_the_object_store.hedging import Hedges

T = TypeVar("T")
Ask = Callable[[], Coroutine[Any, Any, T]]


async def first_answer(
    asks: Sequence[Ask[T]],
    instead: Ask[T] | None,
    hedges: Hedges,
    failed: Callable[[int, Exception], None],
    let_go: Callable[[T], None],
    instead_after_s: float = 0.0,
    at_once: int | None = None,
) -> T | None:
    """None: all of them have failed. Those that are not needed any more are cancelled.

    Args:
      asks: one after the other; TfquiverError and TimeoutError send to the next.
      instead: joins a late one where there is no next; what it raises is not told: the caller is to try it then.
      hedges: knows what is late, and how often that may be.
      failed: told which of `asks` has failed, and how.
      let_go: given what comes though it is not needed any more.
      instead_after_s: before which `instead` joins none.
      at_once: how many of `asks`, from the first on, join a late one as soon as it is; the others as `instead` does.
        None: all.
    """
    loop, at, hedged, any_failed = asyncio.get_running_loop(), 0, False, False
    began_s = loop.time()
    under_way: dict[asyncio.Task[T], int] = {}
    hedges.began()
    try:
        while under_way or at < len(asks):
            if not under_way:
                under_way[loop.create_task(asks[at]())] = at
                at += 1
            more = asks[at] if at < len(asks) else instead
            wait_s: float | None = None
            if not hedged and more is not None and (late_after_s := hedges.late_after_s()) is not None:
                if at >= (len(asks) if at_once is None else at_once):
                    late_after_s = max(late_after_s, instead_after_s)
                wait_s = began_s + late_after_s - loop.time()
                if wait_s <= 0:
                    hedged = True
                    if hedges.may():
                        under_way[loop.create_task(more())] = at
                        at += 1
                    continue
            done, _ = await asyncio.wait(under_way, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
            for task in sorted(done, key=under_way.__getitem__):
                try:
                    answer = task.result()
                except (errors.TfquiverError, TimeoutError) as error:
                    any_failed = True
                    if (which := under_way.pop(task)) < len(asks):
                        failed(which, error)
                    continue
                del under_way[task]
                if not any_failed:
                    hedges.came(loop.time() - began_s)  # where one was late: it would have taken longer
                return answer
        return None
    finally:
        for task in under_way:
            task.cancel()
            task.add_done_callback(lambda task: _give_up(task, let_go))


def _give_up(task: asyncio.Task[T], let_go: Callable[[T], None]) -> None:
    if not task.cancelled() and task.exception() is None:
        let_go(task.result())
