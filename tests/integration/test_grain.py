"""QuiverDataset in real pipelines of Grain: each record once over all processes and workers, exact resuming, epochs."""

from __future__ import annotations

import concurrent.futures
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import psutil
import pytest

import tfquiver
from tests.support import numbered
from tests.support.daemons import cache_dir_fixture
from tfquiver import errors

grain = pytest.importorskip("grain", reason="Grain is not installed: pip install '.[grain]'")
quiver = pytest.importorskip("tfquiver.grain")

FILES, RECORDS, RECORD_BYTES = 3, 600, 300
TOTAL = FILES * RECORDS
EVERYTHING = Counter(range(TOTAL))
ROOT = Path(__file__).resolve().parents[2]
SMALL = {
    "first_use": tfquiver.FirstUse(cut=tfquiver.CutPolicy(5_000, 10_000, 20_000)),
    "order": tfquiver.Shuffled(shuffle_bytes=20_000),
    "reading": tfquiver.Reading(readahead_bytes=10_000),
}
WORKERS = grain.MultiprocessingOptions(num_workers=2, per_worker_buffer_size=2)
paths = numbered.fixture(FILES, RECORDS, RECORD_BYTES)
cache_dir = cache_dir_fixture()


@pytest.fixture(scope="module", autouse=True)
def _threads_of_grain() -> None:
    """Begun now: it keeps them until the process ends."""
    grain.multiprocessing.SharedMemoryArray.enable_async_del(1)


def number(record: bytes) -> int:
    return int.from_bytes(record[:8], "little")


def numbers(batch: list[bytes]) -> list[int]:
    return [number(record) for record in batch]


def dataset(paths: list[Path], cache_dir: Path, **arguments: Any) -> Any:
    return quiver.QuiverDataset([str(path) for path in paths], cache_dir=cache_dir, **{**SMALL, **arguments})


def flat(elements: Iterable[list[int]]) -> list[int]:
    return [n for element in elements for n in element]


def test_default_flags_give_each_record_once_and_the_next_epoch_another_order(
    paths: list[Path], cache_dir: Path
) -> None:
    data = quiver.QuiverDataset([str(path) for path in paths], cache_dir=cache_dir).map(number)
    first, second = list(data), list(data)
    assert Counter(first) == Counter(second) == EVERYTHING
    assert first != second
    assert data.parents[0].num_records == TOTAL


KINDS = ["plain", "thread", "threads", "processes"]


def pipeline(data: Any, kind: str) -> Any:
    if kind == "thread":
        return grain.experimental.ThreadPrefetchIterDataset(data, prefetch_buffer_size=4)
    if kind == "threads":
        return grain.experimental.multithread_prefetch(data, num_threads=3, buffer_size=2)
    return data.mp_prefetch(WORKERS) if kind == "processes" else data


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_a_pipeline_goes_on_exactly_where_it_was(paths: list[Path], cache_dir: Path, kind: str) -> None:
    """Twice interrupted, with processes, which take seconds to start, once; its state is kept as JSON."""
    data = pipeline(dataset(paths, cache_dir, batch_size=16).map(numbers), kind)
    found: list[int] = []
    saved = ""
    for stop in (50, None) if kind == "processes" else (20, 30, None):  # of some 113 batches
        iterator = iter(data)
        if saved:
            iterator.set_state(json.loads(saved))
        found += flat(islice(iterator, stop))
        saved = json.dumps(iterator.get_state())
        assert len(saved) < 20_000
        iterator.close()
    assert Counter(found) == EVERYTHING
    end = iter(data)
    end.set_state(json.loads(saved))
    assert not list(end)
    end.close()


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_epochs_are_repeated_before_the_workers(paths: list[Path], cache_dir: Path, kind: str) -> None:
    """Behind them a state of Grain's (0.2.18) loses records from the second epoch on, be they ours or its own."""
    data = dataset(paths, cache_dir, batch_size=16).map(numbers)
    data = pipeline(grain.experimental.RepeatIterDataset(data, num_epochs=2), kind)
    found: list[int] = []
    saved = ""
    for stop in (150, None) if kind == "processes" else (40, 110, None):  # of some 226 batches: in either epoch
        iterator = iter(data)
        if saved:
            iterator.set_state(json.loads(saved))
        found += flat(islice(iterator, stop))
        saved = json.dumps(iterator.get_state())
        iterator.close()
    assert Counter(found) == Counter(dict.fromkeys(range(TOTAL), 2))
    if kind in ("plain", "thread"):
        assert Counter(found[:TOTAL]) == EVERYTHING
        assert found[:TOTAL] != found[TOTAL:]


@pytest.mark.parametrize(
    "order",
    [tfquiver.Deterministic(7, shuffle_bytes=20_000), "files", tfquiver.Shuffled(shuffle_bytes=0)],
    ids=["deterministic", "files", "unshuffled"],
)
def test_processes_have_shares_of_any_order(paths: list[Path], cache_dir: Path, order: Any) -> None:
    shares = [
        flat(
            dataset(
                paths, cache_dir, batch_size=16, order=order, sharding=grain.sharding.ShardOptions(index, 3)
            ).map(numbers)
        )
        for index in range(3)
    ]  # fmt: skip
    assert sum(map(Counter, shares), Counter()) == EVERYTHING
    assert all(len(share) > TOTAL // 6 for share in shares), "about as many each"
    if order == "files":
        assert all(share == sorted(share) for share in shares)


def test_a_deterministic_order_comes_again_and_each_epoch_has_its_own(paths: list[Path], cache_dir: Path) -> None:
    order = tfquiver.Deterministic(7, shuffle_bytes=20_000)
    data = dataset(paths, cache_dir, batch_size=16, order=order).map(numbers)
    first, second = (
        flat(grain.experimental.RepeatIterDataset(data, num_epochs=2).mp_prefetch(WORKERS)) for _ in range(2)
    )
    assert first == second
    assert Counter(first) == Counter(dict.fromkeys(range(TOTAL), 2))
    alone = flat(grain.experimental.RepeatIterDataset(data, num_epochs=2))
    assert alone[:TOTAL] != alone[TOTAL:]


def test_more_readers_than_shards(tmp_path: Path, cache_dir: Path) -> None:
    files = numbered.write(tmp_path / "little", 1, 10, 100)
    shares = [
        list(dataset(files, cache_dir, sharding=grain.sharding.ShardOptions(index, 3)).map(number)) for index in (0, 1)
    ]
    assert (sorted(shares[0]), shares[1]) == (list(range(10)), [])
    nothing = dataset(files, cache_dir, sharding=grain.sharding.ShardOptions(1, 3))
    assert not list(grain.experimental.RepeatIterDataset(nothing, num_epochs=50))
    with pytest.raises(errors.InvalidArgumentError, match=r"\(reader 1 of 3\) had no element in 1000 epochs: of 1 sha"):
        next(iter(grain.experimental.RepeatIterDataset(nothing)))


def test_a_state_of_somebody_else_is_refused(paths: list[Path], tmp_path: Path, cache_dir: Path) -> None:
    data = dataset(paths, cache_dir)
    iterator = iter(data)
    next(iterator)
    state = iterator.get_state()
    others = numbered.write(tmp_path / "other", 1, 10, 100)
    for other, changed, match in (
        (dataset(paths, cache_dir, sharding=grain.sharding.ShardOptions(0, 2)), state, "reader 0 of 1"),
        (dataset(others, cache_dir), state, "another data set"),
        (data, {**state, "version": 9}, "version 9"),
        (data, {}, "not the state"),
        (data, {**state, "here": "?"}, "damaged"),
        (data, {**state, "here": "\N{MICRO SIGN}"}, "damaged"),
        (data, {**state, "epoch": -1}, "damaged"),
        (data, {**state, "epoch": 1 << 63}, "damaged"),
    ):
        with pytest.raises(errors.InvalidArgumentError, match=match):
            iter(other).set_state(changed)
    iterator.set_state({**state, "here": state["here"][:-8]})
    with pytest.raises(errors.InvalidArgumentError, match="damaged"):
        next(iterator)


def test_a_closed_iterator_gives_back_what_it_had_and_still_knows_where_it_was(
    paths: list[Path], cache_dir: Path
) -> None:
    iterator = iter(dataset(paths, cache_dir))
    next(iterator)
    state = iterator.get_state()
    iterator.close()
    iterator.close()
    with pytest.raises(ValueError, match="closed"):
        next(iterator)
    assert iterator.get_state() == state


def test_one_that_waits_for_an_element_can_be_closed_in_another_thread(paths: list[Path], cache_dir: Path) -> None:
    iterator = iter(dataset(paths, cache_dir))
    next(iterator)
    node = psutil.Process(int((cache_dir / "node.lock").read_text()))
    node.suspend()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        try:
            reading = pool.submit(list, iterator)
            with pytest.raises(concurrent.futures.TimeoutError):
                reading.result(2)
            iterator.close()
            with pytest.raises(errors.CancelledError_):
                reading.result(10)
        finally:
            node.resume()
    with pytest.raises(errors.InvalidArgumentError, match="closed while an element was waited for"):
        iterator.get_state()


def test_elements_are_what_was_asked_for(paths: list[Path], cache_dir: Path) -> None:
    assert len(next(iter(dataset(paths, cache_dir)))) == RECORD_BYTES
    batch = next(iter(dataset(paths, cache_dir, batch_size=8)))
    assert len(batch) == 8 and {len(record) for record in batch} == {RECORD_BYTES}
    data = dataset(paths, cache_dir, batch_size=8, decode_batch=lambda batch: {"data": batch.data})
    assert next(iter(data))["data"].shape == (8 * RECORD_BYTES,)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"decode_batch": list}, "with batch_size="),
        ({"decode_batch": 3, "batch_size": 8}, "decode_batch=3"),
        ({"order": tfquiver.Replay("/logs")}, "not for Grain"),
        ({"order": tfquiver.Shuffled(log_dir="/logs")}, "not for Grain"),
        ({"sharding": grain.sharding.ShardOptions(0, 2, drop_remainder=True)}, "drop_remainder"),
    ],
)
def test_what_cannot_be_right_is_named(paths: list[Path], cache_dir: Path, given: dict[str, Any], match: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=match):
        quiver.QuiverDataset(str(paths[0]), cache_dir=cache_dir, **given)


def test_importing_it_imports_no_tensorflow() -> None:
    check = "import sys, tfquiver.grain; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], cwd=ROOT, check=False).returncode == 0


def test_an_iterator_that_is_left_open_at_exit_says_nothing(paths: list[Path], cache_dir: Path) -> None:
    """Behind a stage of Grain's, whose own `__del__` closes it when modules have lost their names."""
    program = (
        "import sys; from tfquiver.grain import QuiverDataset\n"
        "data = QuiverDataset(sys.argv[2:], cache_dir=sys.argv[1], batch_size=8).map(len)\n"
        "iterator = iter(data)\n"
        "left = [next(iterator)]\n"
        "sys.modules['kept'] = iterator\n"
    )
    command = [sys.executable, "-c", program, str(cache_dir), *map(str, paths)]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert "Traceback" not in done.stderr, done.stderr
