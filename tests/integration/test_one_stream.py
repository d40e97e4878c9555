"""`tfquiver.one_stream` as users write it: trainers in processes of their own over a real node."""

from __future__ import annotations

import contextlib
import itertools
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import tfquiver
from tests.support import numbered
from tests.support.daemons import cache_dir_fixture
from tests.support.stream_trainers import Trainer
from tfquiver import errors

FILES, RECORDS, RECORD_BYTES = 3, 600, 2000
TOTAL = FILES * RECORDS
SMALL_SHARDS = tfquiver.FirstUse(cut=tfquiver.CutPolicy(20_000, 50_000, 100_000))
paths = numbered.fixture(FILES, RECORDS, RECORD_BYTES)
cache_dir = cache_dir_fixture()
MakeTrainer = Callable[..., Trainer]


@pytest.fixture
def trainer(paths: list[Path], cache_dir: Path, tmp_path: Path) -> Iterator[MakeTrainer]:
    with contextlib.ExitStack() as ending:

        def made(**given: Any) -> Trainer:
            one = Trainer(paths, cache_dir, tmp_path / "calls", **given)
            ending.callback(one.end)
            return one

        yield made


@pytest.fixture
def calls(tmp_path: Path) -> Callable[[], int]:
    return lambda: (tmp_path / "calls").stat().st_size


def whole(one: dict[str, Any]) -> list[int]:
    return sorted(number for batch in one["batches"] for number in batch)


def test_trainers_share_one_preprocessing_however_slow_one_is(trainer: MakeTrainer, calls: Callable[[], int]) -> None:
    trainers = [trainer(epochs=2, waits=True, step_s=0.02 if slow else 0.0) for slow in (True, False, False)]
    assert {one.line() for one in trainers} == {"made"}
    for one in trainers:
        one.go()
    first, *others = [one.passes() for one in trainers]
    for epoch in range(2):
        assert whole(first[epoch]) == list(range(TOTAL))
        assert all(other[epoch]["batches"] == first[epoch]["batches"] for other in others)
    assert first[0]["batches"] != first[1]["batches"], "each epoch has its own order"
    assert calls() <= 1.02 * 2 * TOTAL


def test_who_falls_out_of_the_window_goes_on_where_it_was(trainer: MakeTrainer, calls: Callable[[], int]) -> None:
    tiny = {"window_bytes": 1 << 17, "spill_bytes": 0, "bytes": 2000}
    slow, fast = trainer(step_s=0.05, says=True, **tiny), trainer(waits=True, **tiny)
    while slow.line() != "3":
        pass
    assert fast.line() == "made"
    fast.go()
    [quick] = fast.passes()
    assert slow.process.poll() is None, "it was far behind then"
    [late] = slow.passes()
    assert late["batches"] == quick["batches"] and whole(late) == list(range(TOTAL))
    assert TOTAL < calls() < 2.5 * TOTAL, "it made again what had gone, once"


@pytest.mark.long
def test_what_does_not_fit_memory_comes_from_the_disk(trainer: MakeTrainer, calls: Callable[[], int]) -> None:
    window = {"window_bytes": 1 << 20, "bytes": 2000}
    slow, fast = trainer(step_s=0.05, says=True, **window), trainer(waits=True, step_s=0.005, **window)
    while slow.line() != "3":
        pass
    assert fast.line() == "made"
    fast.go()
    [quick] = fast.passes()
    [late] = slow.passes()
    assert late["batches"] == quick["batches"] and whole(late) == list(range(TOTAL))
    assert calls() <= 1.02 * TOTAL


def source(paths: list[Path], cache_dir: Path, **given: Any) -> tf.data.Dataset:
    order = {"order": tfquiver.Deterministic(3)}
    return tfquiver.dataset([str(path) for path in paths], cache_dir=cache_dir, first_use=SMALL_SHARDS, **order | given)


def test_default_flags_and_elements_of_any_structure(paths: list[Path], cache_dir: Path) -> None:
    def parse(records: Any) -> Any:
        numbers = tf.io.decode_raw(tf.strings.substr(records, 0, 8), tf.int64)[:, 0]
        ragged = tf.RaggedTensor.from_row_lengths(tf.range(tf.reduce_sum(numbers % 3)), numbers % 3)
        return {"number": numbers, "ragged": ragged, "sparse": tf.sparse.from_dense([[0, 2]])}, tf.shape(records)

    plain = source(paths, cache_dir, batch_size=64).map(parse)
    shared = plain.apply(tfquiver.one_stream("any"))
    assert shared.element_spec == plain.element_spec and int(shared.cardinality()) == int(plain.cardinality())
    for given, (expected, shape) in zip(shared, plain, strict=True):
        assert given[0]["number"].dtype == tf.int64 and given[1].numpy() == shape.numpy()
        assert given[0]["ragged"].row_lengths().numpy().tolist() == [int(one) % 3 for one in given[0]["number"]]
        assert len(given[0]["number"]) == len(expected["number"])
        assert tf.sparse.to_dense(given[0]["sparse"]).numpy().tolist() == [[0, 2]]
    found = sorted(int(number) for element, _ in shared for number in element["number"])
    assert found == list(range(TOTAL))


def test_who_goes_on_at_the_very_end_has_ended_though_others_are_behind(paths: list[Path], cache_dir: Path) -> None:
    batches = -(-TOTAL // 16)
    behind = iter(source(paths, cache_dir).batch(16).apply(tfquiver.one_stream("s")))
    next(behind)
    ended = source(paths, cache_dir).batch(16).apply(tfquiver.one_stream("s", first_batch=batches))
    assert list(ended) == []
    assert sum(1 for _ in behind) == batches - 1


def test_an_iterator_that_is_given_up_leaves_the_stream_to_others(paths: list[Path], cache_dir: Path) -> None:
    one, other = (source(paths, cache_dir).batch(16).apply(tfquiver.one_stream("s")) for _ in range(2))
    first = [batch.numpy().tolist() for batch in one.take(5)]
    every = [batch.numpy().tolist() for batch in other]
    assert every[:5] == first and len(every) == -(-TOTAL // 16)


def numbers(dataset: tf.data.Dataset) -> list[list[int]]:
    return [[int.from_bytes(record[:8], "little") for record in batch] for batch in dataset.as_numpy_iterator()]


def test_a_late_one_begins_at_the_beginning_and_one_that_goes_on_where_it_says(
    paths: list[Path], cache_dir: Path
) -> None:
    batched = source(paths, cache_dir).batch(16)
    one = batched.apply(tfquiver.one_stream("s"))
    first, second = numbers(one), numbers(one)
    assert first != second and all(
        sorted(itertools.chain.from_iterable(one)) == list(range(TOTAL)) for one in (first, second)
    )
    late = source(paths, cache_dir).batch(16).apply(tfquiver.one_stream("s"))
    assert [numbers(late), numbers(late)] == [first, second]
    rest = batched.apply(tfquiver.one_stream("s", first_epoch=1, first_batch=100))
    assert numbers(rest) == second[100:]


def test_a_pipeline_that_makes_other_batches_is_found_out(paths: list[Path], cache_dir: Path) -> None:
    tiny = tfquiver.one_stream("s", window_bytes=1 << 17, spill_bytes=0)

    def ending(what: bytes) -> tf.data.Dataset:
        """A graph does not tell what Python computes."""

        def python(record: Any) -> Any:
            return tf.ensure_shape(tf.numpy_function(lambda one: one + what, [record], tf.string), [])

        return source(paths, cache_dir).map(python).batch(12)

    there = iter(ending(b"").apply(tiny))  # else who comes next begins anew
    next(there)
    numbers(ending(b"").apply(tiny))  # most have gone, and what they came to is known
    other = ending(b"!").apply(tiny)
    with pytest.raises(errors.InvalidArgumentError, match=r"^stream 's', epoch .* make the same batches again"):
        list(other)
    del there


def failing(record: Any) -> Any:
    tf.debugging.assert_equal(tf.strings.length(record), 7, message="my own check")
    return record


def test_a_pipeline_that_fails_is_named_in_the_first_line_and_the_last(paths: list[Path], cache_dir: Path) -> None:
    data = source(paths, cache_dir, job="ens").map(failing).batch(16).apply(tfquiver.one_stream("s"))
    with pytest.raises(tfquiver.errors.InvalidArgumentError) as caught:
        next(iter(data))
    assert isinstance(caught.value, tf.errors.InvalidArgumentError), "of the code that the pipeline's own had"
    said = str(caught.value)
    assert said.startswith(
        "stream 's' of job 'ens', epoch 0, batch 0: its pipeline fails: InvalidArgumentError: assertion failed: "
        "[my own check]"
    )
    assert said.endswith("mend the pipeline that stands before one_stream: alone it fails alike")
    assert "\n" not in said and "function_node" not in said
    shown = "".join(traceback.format_exception(caught.value)).strip().splitlines()
    assert len(shown) < 20 and shown[-1].endswith(said)

    with pytest.raises(tf.errors.OpError) as passed:
        list(data.map(lambda record: record))
    first, *_, last, _ = [line for line in str(passed.value).splitlines() if line.strip()]  # TensorFlow's node ends it
    said = said.replace("epoch 0", "epoch 1")  # of the second iterator
    assert said in first and last.endswith(said)
    assert str(passed.value).count("File ") <= 5 and "maker.py" not in str(passed.value)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda paths, cache_dir: source(paths, cache_dir, order=tfquiver.Shuffled()), "Deterministic"),
        (lambda paths, cache_dir: source(paths, cache_dir).repeat(), "repeat"),
        (lambda paths, cache_dir: tf.data.Dataset.range(3), "must begin with tfquiver.dataset"),
    ],
)
def test_pipelines_that_cannot_be_made_again_are_refused(
    paths: list[Path], cache_dir: Path, made: Callable[..., Any], said: str
) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=said):
        made(paths, cache_dir).apply(tfquiver.one_stream("s"))


def test_a_stream_is_not_spread_over_workers_nor_made_of_what_they_make(paths: list[Path], cache_dir: Path) -> None:
    dispatcher = tf.data.experimental.service.DispatchServer()
    spread, stream = tfquiver.distribute(dispatcher.target), tfquiver.one_stream("both")
    data = tfquiver.dataset(paths, cache_dir=cache_dir, order=tfquiver.Deterministic(3), batch_size=8)
    for streamed in (data.apply(stream), data.apply(stream).map(tf.identity)):
        with pytest.raises(errors.InvalidArgumentError, match=r"one_stream.*Leave distribute\(\) away"):
            streamed.apply(spread)
    with pytest.raises(errors.InvalidArgumentError, match=r"one_stream.*Leave distribute\(\) away"):
        data.apply(spread).prefetch(1).apply(stream)


@pytest.mark.parametrize("given", [{"name": ""}, {"window_bytes": 1}, {"spill_bytes": -1}, {"first_batch": -1}])
def test_arguments_are_checked(given: dict[str, Any]) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=next(iter(given))):
        tfquiver.one_stream(**{"name": "s", **given})


def test_a_first_batch_behind_the_last_is_refused_when_it_is_said(paths: list[Path], cache_dir: Path) -> None:
    batched = source(paths, cache_dir).batch(16)
    many = int(batched.cardinality())
    assert numbers(batched.apply(tfquiver.one_stream("s", first_batch=many))) == []
    with pytest.raises(errors.InvalidArgumentError, match=f"first_batch={many + 1}: an epoch has {many} batches"):
        batched.apply(tfquiver.one_stream("s", first_batch=many + 1))
