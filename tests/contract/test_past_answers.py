"""However many pages ask for what was, the coordinator is asked once, and what fails is asked again."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest

from tfquiver import errors
from tfquiver.cli.dashboard import past_answers
from tfquiver.cli.dashboard.past_answers import PastAnswers


class Coordinator:
    """Answers when it is let."""

    def __init__(self) -> None:
        self.asked, self.wrong, self.let = list[tuple[bool, list[str], str]](), 0, threading.Event()

    def __call__(self, day: bool, jobs: list[str], digest_id: str) -> dict[str, Any]:
        self.asked.append((day, jobs, digest_id))
        assert self.let.wait(60)
        if self.wrong:
            self.wrong -= 1
            raise errors.UnavailableError("away")
        return {"number": len(self.asked)}


def test_fifty_pages_are_one_question() -> None:
    async def run() -> None:
        coordinator = Coordinator()
        answers = PastAnswers(coordinator)
        pages = [asyncio.ensure_future(answers.told(True, ["job"], "")) for _ in range(50)]
        other = asyncio.ensure_future(answers.told(False, ["job"], ""))
        await asyncio.sleep(0)
        pages.pop().cancel()  # has hung up
        coordinator.let.set()
        told = [json.loads(one)["number"] for one in await asyncio.gather(*pages)]
        await other
        assert len(set(told)) == 1 and sorted(coordinator.asked) == [(False, ["job"], ""), (True, ["job"], "")]
        await answers.told(True, ["job"], "")
        assert len(coordinator.asked) == 2

    asyncio.run(run())


def test_what_is_old_or_failed_is_asked_again_and_little_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        coordinator = Coordinator()
        coordinator.let.set()
        coordinator.wrong = 1
        answers = PastAnswers(coordinator)
        with pytest.raises(errors.UnavailableError):
            await answers.told(True, [], "")
        assert json.loads(await answers.told(True, [], ""))["number"] == 2
        for number in range(70):
            await answers.told(True, [f"{number}"], "")
        asked = len(coordinator.asked)
        await answers.told(True, ["69"], "")
        assert len(coordinator.asked) == asked
        await answers.told(True, ["0"], "")
        assert len(coordinator.asked) == asked + 1
        monkeypatch.setattr(past_answers, "STANDS_S", 0.0)
        await answers.told(True, ["69"], "")
        assert len(coordinator.asked) == asked + 2

    asyncio.run(run())
