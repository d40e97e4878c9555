"""QuiverDataset in real DataLoaders: each record once over all workers and ranks, exact resuming, a worker's death."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import tfquiver
from tests.support import numbered
from tests.support.daemons import cache_dir_fixture
from tests.support.torch_jobs import Job, count
from tfquiver import errors

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install '.[torch]'")
pytest.importorskip("torchdata", reason="torchdata is not installed: pip install '.[torch]'")
quiver = pytest.importorskip("tfquiver.torch")
epochs = pytest.importorskip("tfquiver.torch.epochs")
participants = pytest.importorskip("tfquiver.torch.participants")
processes = pytest.importorskip("tfquiver.torch.processes")

FILES, RECORDS, RECORD_BYTES = 3, 1000, 300
TOTAL = FILES * RECORDS
EVERYTHING = Counter(range(TOTAL))
ROOT = Path(__file__).resolve().parents[2]
SMALL_SHARDS = tfquiver.FirstUse(cut=tfquiver.CutPolicy(5_000, 10_000, 20_000))  # as in torch_ranks
paths = numbered.fixture(FILES, RECORDS, RECORD_BYTES)
cache_dir = cache_dir_fixture()


def test_four_workers_of_two_ranks_read_each_record_once_an_epoch(paths: list[Path], cache_dir: Path) -> None:
    options = {"epochs": 3, "set_epoch": True, "batch_size": 8}
    ranks = Job(paths, cache_dir, 2, 4, [options] * 2).said()
    for epoch in range(3):
        shares = [count(said, epoch) for said in ranks]
        assert shares[0] + shares[1] == EVERYTHING
        assert all(shares), "both had a part"
    orders = [[n for line in ranks[0] if line["epoch"] == epoch for n in line.get("numbers", ())] for epoch in range(3)]
    assert orders[0] != orders[1]


def test_no_rank_has_all_before_the_others_come(paths: list[Path], cache_dir: Path) -> None:
    """Of a data set that would fit into the pool of the first."""
    options = {"pool_bytes": 64 << 20, "readahead_bytes": 32 << 20, "epochs": 3}
    ranks = Job(paths, cache_dir, 2, 2, [options] * 2).said()
    for epoch in range(3):
        mine = [count(said, epoch) for said in ranks]
        assert sum(mine, Counter()) == EVERYTHING
        assert all(mine), [one.total() for one in mine]


def test_a_reader_has_half_of_its_part_at_most() -> None:
    options = {
        "order_log": "", "replay": "", "deterministic": False, "homogeneous": False, "readahead_bytes": 32 << 20,
        "shuffle_bytes": 64 << 20,
    }  # fmt: skip

    def bytes_of(*given: Any, **other: Any) -> list[int]:
        told = participants.within_its_part({**options, **other}, *given)
        return [told["readahead_bytes"], told["shuffle_bytes"]]

    assert bytes_of(8000, 1) == bytes_of(8 << 30, 8) == [32 << 20, 64 << 20]
    assert bytes_of(8000, 2) == [1000, 1000]
    assert bytes_of(8000, 2, shuffle_bytes=0) == [1000, 0]
    assert bytes_of(1, 2) == [1, 1]
    assert bytes_of(8000, 2, replay="log") == [32 << 20, 64 << 20], "it is of one pool"
    assert bytes_of(8000, 2, deterministic=True) == [1000, 64 << 20], "one order for any number of readers"
    assert bytes_of(8000, 2, homogeneous=True) == bytes_of(8000, 2, True) == [1000, 1000]
    assert bytes_of(8000, 2, True, homogeneous=True) == [1000, 64 << 20], "the order of a stream is not ours alone"


@pytest.mark.parametrize(
    "options",
    [
        {"context": "spawn"},
        {"persistent": True},
        {"seed": 0},  # before each epoch: DataLoader draws the same for all of them
        {"seed": 0, "context": "spawn"},
        {"seed": 0, "context": "forkserver"},
        {"seed": 0, "persistent": True},
        {"copied": True},  # each epoch of a copy that nobody has read of
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_other_workers(paths: list[Path], cache_dir: Path, options: dict[str, Any]) -> None:
    (said,) = Job(paths, cache_dir, 1, 2, [{**options, "epochs": 2}]).said()
    assert [count(said, epoch) for epoch in range(2)] == [EVERYTHING] * 2


@pytest.mark.parametrize(("ranks", "workers", "stops"), [(1, 0, (5, 70)), (1, 3, (40, 60)), (2, 2, (20, 30))])
def test_a_job_goes_on_exactly_where_it_was(
    paths: list[Path], cache_dir: Path, tmp_path: Path, ranks: int, workers: int, stops: tuple[int, int]
) -> None:
    seen: Counter[int] = Counter()
    states = [{"state": str(tmp_path / f"state-{rank}")} for rank in range(ranks)]
    for stop in (*stops, None):  # twice interrupted: what was begun twice is told apart, too
        options = [state | ({"stop_after": stop} if stop else {}) for state in states]
        for said in Job(paths, cache_dir, ranks, workers, options).said():
            seen += count(said)
    assert seen == EVERYTHING


def test_a_state_of_another_number_of_readers_is_refused(paths: list[Path], cache_dir: Path, tmp_path: Path) -> None:
    state = {"state": str(tmp_path / "state")}
    Job(paths, cache_dir, 1, 0, [{**state, "stop_after": 5}]).said()
    saved = torch.load(tmp_path / "state", weights_only=False)
    data = quiver.QuiverDataset([str(path) for path in paths], cache_dir=cache_dir, first_use=SMALL_SHARDS)
    ours = next(value for value in _dicts(saved) if "readers" in value)
    for change, match in (({"readers": 8}, "of 8 readers"), ({"digest": "0" * 64}, "another data set")):
        with pytest.raises(errors.InvalidArgumentError, match=match):
            iter(data).load_state_dict({**ours, **change})
    with pytest.raises(errors.InvalidArgumentError, match="damaged"):
        iter(data).load_state_dict({**ours, "here": ours["here"][:-3]})
    with pytest.raises(errors.InvalidArgumentError, match="state_dict of a"):
        iter(data).load_state_dict({})


def _dicts(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from _dicts(inner)


def test_what_a_killed_worker_had_is_read_by_others(paths: list[Path], cache_dir: Path) -> None:
    options = {"stream": "one epoch"}  # two jobs, so that PyTorch ends one of them only
    victim = Job(paths, cache_dir, 1, 2, [{**options, "stepped": True}])
    (rank,) = victim.ranks
    assert rank.stdin and rank.stdout and rank.stderr
    seen = Counter(json.loads(rank.stdout.readline())["numbers"])
    other = Job(paths, cache_dir, 1, 2, [{**options, "stepped": True}])
    (reader,) = other.ranks
    assert reader.stdout
    seen += Counter(json.loads(reader.stdout.readline())["numbers"])  # it is in the same epoch now
    children = psutil.Process(rank.pid).children()
    workers = [child for child in children if "tests.support.torch_ranks" in child.cmdline()]  # and a resource tracker
    workers[0].send_signal(signal.SIGKILL)
    rank.stdin.write("\n" * 10_000)
    out, err = rank.communicate(timeout=120)
    assert rank.returncode != 0 and "killed by signal" in err, "DataLoader says so itself"
    assert reader.stdin
    reader.stdin.write("\n" * 10_000)
    (rest,) = other.said()
    everything = seen + count([json.loads(line) for line in out.splitlines()]) + count(rest)
    assert set(everything) == set(range(TOTAL)), "at least once"
    assert max(everything.values()) <= 2


def test_elements_are_what_was_asked_for(paths: list[Path], cache_dir: Path) -> None:
    source = [str(path) for path in paths]
    loader = torch.utils.data.DataLoader(quiver.QuiverDataset(source, cache_dir=cache_dir), batch_size=8)
    batch = next(iter(loader))
    assert len(batch) == 8 and {len(record) for record in batch} == {RECORD_BYTES}, "default flags: bytes"

    def decoded(record: memoryview) -> dict[str, Any]:
        return {"x": np.frombuffer(record[:8], "<i8").copy()}

    data = quiver.QuiverDataset(source, cache_dir=cache_dir, batch_size=8, decode=decoded)
    (tensor,) = next(iter(data)).values()
    assert tensor.shape == (8, 1) and tensor.dtype == torch.int64
    data = quiver.QuiverDataset(source, cache_dir=cache_dir, batch_size=8, decode_batch=quiver.as_tensors)
    tensors = next(iter(data))
    assert tensors["data"].shape == (8 * RECORD_BYTES,) and tensors["offsets"].tolist()[1] == RECORD_BYTES


def test_a_tensorflow_job_and_a_pytorch_job_share_bytes_and_an_epoch(paths: list[Path], cache_dir: Path) -> None:
    """The cache holds each shard once, whoever came first."""
    (said,) = Job(paths, cache_dir, 1, 2, [{}]).said()
    assert count(said) == EVERYTHING
    stored = sum(path.stat().st_size for path in (cache_dir / "objects").rglob("*") if path.is_file())
    data = tfquiver.dataset(
        [str(path) for path in paths], cache_dir=cache_dir, first_use=SMALL_SHARDS
    )  # fmt: skip
    assert sorted(numbered.read(data)) == list(range(TOTAL))
    assert stored == sum(path.stat().st_size for path in (cache_dir / "objects").rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"decode": 3}, "decode=3"),
        ({"decode": bytes, "decode_batch": list}, "instead of"),
        ({"collate": list}, "batch_size="),
        ({"rank": 3, "world_size": 2}, "rank=3"),
        ({"rank": 0}, "give both"),
        ({"rank": 0, "world_size": 2}, "init_process_group"),
        ({"rank": 0, "world_size": 2, "order": "files"}, "which|init_process_group|one reader"),
    ],
)
def test_what_cannot_be_right_is_named(paths: list[Path], cache_dir: Path, given: dict[str, Any], match: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=match):
        quiver.QuiverDataset(str(paths[0]), cache_dir=cache_dir, **given)


class TestIterations:
    """Which workers are in one iteration. `worker`: of a loader, begun as that process of its parent."""

    def worker(self, number: int, began: int, loader: int = 7) -> Any:
        return participants.Worker(number, 3, loader, began - number)

    def test_workers_find_one_another_whoever_comes_first(self) -> None:
        iterations = epochs.Iterations()
        begun = [iterations.begin(self.worker(number, 11 + number), 0) for number in (1, 0, 2)]
        assert begun == [(0, 0)] * 3

    def test_the_next_iteration_of_the_same_seed_is_another_one(self) -> None:
        iterations = epochs.Iterations()
        for epoch in range(20):
            for number in (2, 0, 1):
                assert iterations.begin(self.worker(number, 10 + 3 * epoch + number), 0) == (epoch, epoch)

    def test_many_loaders_at_the_same_time_are_many_iterations(self) -> None:
        iterations = epochs.Iterations()
        begun = [
            iterations.begin(self.worker(number, 10 + 3 * which + number), 0)
            for number in range(3)
            for which in range(100)
        ]
        assert begun == [(which, which) for which in range(100)] * 3

    def test_a_copy_counts_by_itself_and_under_a_name_of_its_own(self) -> None:
        iterations = epochs.Iterations()
        copies = [pickle.loads(pickle.dumps(iterations)) for _ in range(2)]
        assert len({one.copy for one in (iterations, *copies)}) == 3
        assert [one.begin(self.worker(0, 11), 0) for one in copies] == [(0, 0)] * 2

    def test_a_worker_that_was_killed_with_the_lock_is_not_waited_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(epochs, "_LOCKED_S", 0.05)
        iterations = epochs.Iterations()
        killed = multiprocessing.get_context("fork").Process(target=_is_killed_with, args=(iterations,))
        killed.start()
        killed.join(60)
        for call in (lambda: iterations.begin(self.worker(0, 11), 0), lambda: iterations.set_epoch(1)):
            with pytest.raises(errors.UnavailableError, match="a worker was killed while it began an iteration"):
                call()

    def test_persistent_workers_begin_the_next_one_together(self) -> None:
        iterations = epochs.Iterations()
        begun = [iterations.begin(self.worker(number, 10 + number), again) for again in range(2) for number in range(3)]
        assert begun == [(0, 0)] * 3 + [(1, 1)] * 3


def _is_killed_with(iterations: Any) -> None:
    with iterations._locked():
        os.kill(os.getpid(), signal.SIGKILL)


def _says(iterations: Any, also: Any, told: Any, of: int) -> None:
    told.put((of, processes.begun()))


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_processes_of_one_thread_are_counted_whatever_others_begin(how: str) -> None:
    """Of two data sets each; with multiprocessing's own count all workers of DataLoaders that were begun by two threads
    at the same time read a whole epoch each."""
    context: Any = multiprocessing.get_context(how)
    told, turn = context.Queue(), threading.Barrier(2, timeout=60)
    both = epochs.Iterations(), epochs.Iterations()

    def begins(of: int) -> None:
        each = []
        for _ in range(2):
            turn.wait()
            each.append(context.Process(target=_says, args=(*both, told, of)))
            each[-1].start()
        for one in each:
            one.join(60)

    threads = [threading.Thread(target=begins, args=(of,)) for of in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = [told.get(timeout=60) for _ in range(4)]
    by_thread = [[begun for of, begun in found if of == which] for which in range(2)]
    assert [sorted(begun.number for begun in some) for some in by_thread] == [[1, 2]] * 2
    assert len({begun.thread for begun in by_thread[0]}) == len({begun.thread for begun in by_thread[1]}) == 1
    assert len({begun.thread for _, begun in found}) == 2


def test_importing_it_imports_no_tensorflow() -> None:
    check = "import sys, tfquiver.torch, tfquiver.reader; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], cwd=ROOT, check=False).returncode == 0
