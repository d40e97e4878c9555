"""What `explain_input` makes of what it measured."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tfquiver.tensorflow_client.input_report.shares import WAITS, InputReport, Source, Stage, report

PARSE = Stage("ParallelMap", 4.0, threads=4, function="parse")
BATCH = Stage("Batch", 1.0)


def made(stages: list[Stage], source: Source, takes: float | None = None, prefetches: bool = True) -> InputReport:
    return report(10.0, 1000, stages, source, takes, prefetches)


def test_waits_are_the_readers_and_the_rest_is_shared_by_what_stages_do_at_a_time() -> None:
    told = made([PARSE, BATCH], Source("trial", 0.5, 0.2))
    assert told.shares == {WAITS: 0.5, "ParallelMap (parse)": 0.25, "Batch": 0.25}
    assert list(told.shares) == [WAITS, "ParallelMap (parse)", "Batch"]
    assert told.elements_per_s == 100.0
    assert "80% of its bytes are shard misses" in told.advice[0] and "`tfquiver explain trial`" in told.advice[0]
    assert str(told).startswith("100 elements a second, read alone for 10 s\ntime: 50% waits for records, 25% Par")


@pytest.mark.parametrize(
    ("stages", "source", "prefetches", "said"),
    [
        ([Stage("Map", 9.0, function="slow")], Source("j", 0.1, 1.0), True, "Map (slow) runs in one thread"),
        ([PARSE], Source("j", 0.1, 1.0), True, "ParallelMap (parse) has 4 threads"),
        ([Stage("Batch", 9.0), PARSE], Source("j", 0.0, 1.0), True, "batch_size="),
        ([Stage("ShuffleDataset", 9.0)], Source("j", 0.0, 1.0), True, "shuffled twice"),
        ([PARSE], Source("j", 0.8, 0.99), True, "records come from the cache"),
        ([Stage("Prefetch", 1.0)], Source("j", None, None), False, "end with .prefetch(tf.data.AUTOTUNE)"),
    ],
)
def test_the_first_advice_is_for_what_takes_most(
    stages: list[Stage], source: Source, prefetches: bool, said: str
) -> None:
    assert said in made(stages, source, prefetches=prefetches).advice[0]


def test_a_training_that_takes_less_does_not_wait() -> None:
    told = made([PARSE], Source("j", 0.9, 0.1), takes=40.0)
    (only,) = told.advice
    assert "2.5 times what the training takes" in only and "the training takes 40 a second" in str(told)


def test_where_nothing_is_known_nothing_is_claimed() -> None:
    told = made([], Source("", None, None))
    assert told.shares == {} and told.advice == ()
    assert "none that was measured" in str(told)


@given(
    st.lists(st.builds(Stage, st.sampled_from(["Map", "Batch", "Prefetch"]), st.floats(0, 1e9), st.integers(0, 64))),
    st.one_of(st.none(), st.floats(-1, 2)),
)
@example([Stage("Map", 5e-324, 2)], None)
def test_shares_are_parts_of_one(stages: list[Stage], stall: float | None) -> None:
    shares = made(stages, Source("j", stall, 0.5)).shares
    assert all(0 <= share <= 1 + 1e-9 for share in shares.values())
    if shares:
        assert sum(shares.values()) == pytest.approx(1.0)
