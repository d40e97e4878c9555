"""For every test: one printed seed, and nothing left behind: threads, descriptors, processes and mounts.

What a fixture of a wider scope holds is there before a test of its users begins, and so is not that test's leak.

`pytest -n` runs files side by side in processes of their own, which are told the seed. A test that measures time, or
that changes what the machine's other processes see, is marked `alone`: no other test runs meanwhile. A file of tests
that take minutes of a processor is marked `long`: `make test` leaves it out, where `make test-all`, which CI runs, has
it; and it begins before the others, which would wait for it at the end. One that takes a processor for half a
second, or waits for some, is marked `slow`: `make test-quick` leaves it out, where `make test` has it.
"""

from __future__ import annotations

import gc
import os
import random
import secrets
import shutil
import signal
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests.support import cluster, examples, leaks, own_mounts, tester_forks, turns, warm, warm_roots
from tfquiver.node_daemon_and_notes_in_directories import starting

# A pause of the machine is not a slow example; pytest-timeout bounds the whole test.
hypothesis.settings.register_profile("tfquiver", deadline=None)
hypothesis.settings.load_profile("tfquiver")

SEED = int(os.environ.setdefault("TFQUIVER_TEST_SEED", str(secrets.randbits(31))))
# Children are started by fork and exec. gRPC's own handlers would abort some of them in between, where a test has calls
# under way; read when gRPC is imported, and kept from the servers (tests/support/cluster.py).
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
# TensorFlow's clients retry for as long as the process lives, and say so each time.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
# What a script starts with `&` ignores Ctrl-C, and so would all that tests start from here, which some tests stop so.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Each process that imports numpy would start threads that none of them uses.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Where the environment says that no bytecode is kept, as containers' do, each of them would compile what it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
WITH_TENSORFLOW = ("ops", "integration", "fault", "bench")
cluster.starts = warm.server
starting.starts = warm.Popen


def pytest_report_header() -> str:
    return f"seed: TFQUIVER_TEST_SEED={SEED}"


def pytest_configure(config: pytest.Config) -> None:
    # Until all modules are imported: collections that look through what lasts were a part of what that took.
    gc.disable()
    # Every process that a test starts, and every one that those start, carries it: also when it has become a daemon.
    os.environ[leaks.MARK] = secrets.token_hex(8)
    own_mounts.begin()
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        folder = tempfile.mkdtemp(prefix="tfquiver-turns-")
        config.add_cleanup(lambda: shutil.rmtree(folder))
        os.environ[turns.FOLDER] = folder  # for the processes to come
        config.add_cleanup(warm_roots.begin(Path(folder)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: list[Any]) -> None:
    tester_forks.by_forks(specs, Path(os.environ[turns.FOLDER]), config)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object | None:
    if config.getoption("dist") != "loadfile":
        return None
    from tests.support.by_file import ByFile  # only where pytest-xdist is

    return ByFile(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.option.collectonly:
        return  # what is imported may be that of processes to come (tests/support/tester_forks.py)
    if examples.FACTOR != 1:
        examples.multiply(items, float(config.getini("timeout")), examples.FACTOR)
    if hasattr(config, "workerinput"):
        items[:] = turns.in_order_of_files(items)


def pytest_collection_finish() -> None:
    """All modules are imported. What they hold lasts: that no later collection looks through it saves a tenth."""
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True, tryfirst=True)  # around the test's time limit: waiting for a turn is not the test's time
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    with turns.turn(alone=item.get_closest_marker("alone") is not None):
        return (yield)


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
