"""For every test: one printed seed, and nothing left behind: threads, descriptors and processes.

What a fixture of a wider scope holds is there before a test of its users begins, and so is not that test's leak.
"""

from __future__ import annotations

import os
import random
import secrets
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.support import leaks

# A pause of the machine is not a slow example; pytest-timeout bounds the whole test.
hypothesis.settings.register_profile("tfquiver", deadline=None)
hypothesis.settings.load_profile("tfquiver")

SEED = int(os.environ.get("TFQUIVER_TEST_SEED") or secrets.randbits(31))
# Children are started by fork and exec. gRPC's own handlers would abort some of them in between, where a test has calls
# under way; read when gRPC is imported, and kept from the servers (tests/support/cluster.py).
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
WITH_TENSORFLOW = ("ops", "integration", "fault", "bench")
# Every process that a test starts, and every one that those start, carries it: also when it has become a daemon.
os.environ[leaks.MARK] = secrets.token_hex(8)


def pytest_report_header() -> str:
    return f"seed: TFQUIVER_TEST_SEED={SEED}"


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """This test's own seed: follows from the run's seed and the test's name."""
    return random.Random(f"{SEED} {request.node.nodeid}").getrandbits(31)


@pytest.fixture(autouse=True)
def _nothing_left(request: pytest.FixtureRequest) -> Iterator[None]:
    random.seed(f"{SEED} {request.node.nodeid}")
    kind = request.path.relative_to(Path(__file__).parent).parts[0]
    before = leaks.look(sockets=kind not in WITH_TENSORFLOW)
    yield
    if left := leaks.await_gone(before):
        pytest.fail("left behind:\n  " + "\n  ".join(left), pytrace=False)
