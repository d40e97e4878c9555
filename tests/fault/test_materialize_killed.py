"""Who computes a derived data set is killed, or the node is: what was done stays done, and nothing is wrong or lost."""

from __future__ import annotations

import functools
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import tfquiver
from tests.support import materializing, numbered
from tests.support.cluster import wait_until
from tests.support.daemons import daemons, end_daemons
from tfquiver.node_daemon_and_notes_in_directories import daemon as local
from tfquiver.node_daemon_and_notes_in_directories import endpoints

FILES, RECORDS = 3, 60
TOTAL = FILES * RECORDS
SLOW_S = 0.05
paths = numbered.fixture(FILES, RECORDS, 500)


class _NoOp:
    def set_endpoint(self, name: str, socket_path: str, kept: int = -1) -> None: ...


@pytest.fixture
def cache_dir(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "cache"
    stays = functools.partial(local.find_or_start, directory, 1 << 30, idle_exit_s=600)
    endpoints.acquire("test", stays, _NoOp())
    yield directory
    endpoints.close_all()
    end_daemons(directory)


@pytest.mark.long
def test_a_trainer_that_is_killed_leaves_what_it_has_done_and_the_rest_to_others(
    cache_dir: Path, paths: list[Path], tmp_path: Path
) -> None:
    calls = tmp_path / "calls"
    victim = materializing.start(cache_dir, calls, paths, SLOW_S)
    wait_until(lambda: materializing.calls_in(calls) > TOTAL // 3, "a part is computed", 240)
    victim.send_signal(signal.SIGKILL)
    victim.communicate(timeout=60)
    before = materializing.calls_in(calls)
    assert before < TOTAL, "it was killed in the middle"
    for _ in range(2):
        assert materializing.outcome(materializing.start(cache_dir, calls, paths, SLOW_S)) == TOTAL
        assert materializing.calls_in(calls) < TOTAL + before, "what had been reported was not computed again"
    again = tfquiver.dataset(paths, cache_dir=cache_dir, first_use=materializing.first_use())
    checked = again.apply(tfquiver.materialize(materializing.counted(calls, SLOW_S), check=FILES * RECORDS))
    assert sorted(checked.as_numpy_iterator()) == list(range(TOTAL))


@pytest.mark.long
def test_a_node_that_is_killed_comes_back_to_the_same_build(cache_dir: Path, paths: list[Path], tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    trainers = [materializing.start(cache_dir, calls, paths, SLOW_S) for _ in range(2)]
    wait_until(lambda: materializing.calls_in(calls) > TOTAL // 3, "a part is computed", 240)
    (node,) = daemons(cache_dir)
    node.kill()
    psutil.wait_procs([node], timeout=30)
    assert [materializing.outcome(trainer) for trainer in trainers] == [TOTAL, TOTAL]
    assert materializing.calls_in(calls) <= 2 * TOTAL
