"""A policy of another package, as pip would install it: it decides; what it cannot plan is refused, and told."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_policy_decides import SMALL, becomes, reads, started
from tests.support import other_package
from tests.support.aio import on_loop
from tests.support.coordinator_client import CoordinatorClient
from tfquiver.cli.main import main
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb

_MODULE = """
from pathlib import Path
from tfquiver.service.coordinator.policies.views_and_plans.interface import Allocation, Plan

class Theirs:
    def plan(self, view, now):
        broken = Path(__file__).with_name("broken")
        if broken.exists():
            if broken.read_text() == "raises":
                raise ZeroDivisionError("out of ideas")
            if broken.read_text() == "exits":
                raise SystemExit(3)
            return Plan({one.name: Allocation("uniform", float("nan")) for one in view.datasets})
        return Plan({one.name: Allocation("uniform", one.size_bytes // 2) for one in view.datasets})
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "site"
    other_package.install(directory, "their_policy", _MODULE, "[tfquiver.policies]\ntheirs = their_policy:Theirs\n")
    monkeypatch.delitem(sys.modules, "their_policy", raising=False)
    monkeypatch.syspath_prepend(str(directory))
    return directory


@on_loop
@pytest.mark.parametrize(
    ("broken", "said"),
    [("raises", "ZeroDivisionError: out of ideas"), ("exits", "SystemExit: 3"), ("nan", "nan is not")],
)
async def test_it_decides_and_where_it_fails_the_last_good_plan_stays(
    package: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, broken: str, said: str
) -> None:
    async with started(tmp_path) as client:
        await client.upload([SMALL.to_bytes()], name="small")
        await reads(client, "a", SMALL)
        assert await asyncio.to_thread(main, ["policy", "theirs", "--service", f"unix:{tmp_path}/socket"]) == 0
        good = await becomes(client, SMALL, lambda its: its.decided_by == "theirs")
        with caplog.at_level(logging.WARNING, logger="absl"):
            (package / "broken").write_text(broken)
            await reads(client, "b", SMALL)
            told = await refusal(client)
        assert said in told["refused"]
        warned = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
        assert any(said in one for one in warned), warned
        assert await client.call("GetCache", pb.GetCacheRequest(digest_id=SMALL.digest_id)) == good


async def refusal(client: CoordinatorClient) -> dict[str, Any]:
    """What `tfquiver explain` tells, once the policy's last plan was refused."""
    told: dict[str, Any] = {}
    async with asyncio.timeout(20):
        while not told.get("refused"):
            await asyncio.sleep(0.05)
            told = json.loads((await client.call("Explain", pb.ExplainRequest(name="small"))).json)
    return told
