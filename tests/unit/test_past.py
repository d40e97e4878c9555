"""What a coordinator keeps of the last day: right where it is known, nothing where it is not, and bounded."""

from __future__ import annotations

import base64
import json
import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfquiver.service.coordinator.history_of_the_last_day import epochs as epochs_module
from tfquiver.service.coordinator.history_of_the_last_day import heat as heat_module
from tfquiver.service.coordinator.history_of_the_last_day.epochs import Epochs
from tfquiver.service.coordinator.history_of_the_last_day.heat import FULL, NOTHING, HeatMap, shares_of_ranges
from tfquiver.service.coordinator.history_of_the_last_day.past import MOST_DATASETS, MOST_JOBS, Past
from tfquiver.service.coordinator.history_of_the_last_day.series import (
    COARSE,
    DAY_STEPS,
    HOUR_STEPS,
    STEP_S,
    Ring,
    Series,
)

DAY = 86_400 * 20_000.0


@given(st.lists(st.tuples(st.integers(1, 9), st.floats(0, 1e9, width=32)), min_size=1, max_size=60))
def test_a_ring_has_the_last_values_each_in_its_place(moves: list[tuple[int, float]]) -> None:
    ring, said, step = Ring(8), dict[int, float](), 1_000
    for ahead, value in moves:
        step += ahead
        ring.put(step, value)
        said[step] = value
    for until in (step, step + 3, step + 100):
        told = ring.last(until)
        assert len(told) == 8
        for at, value in zip(range(until - 7, until + 1), told, strict=True):
            expected = said.get(at, math.nan) if at > step - 8 else math.nan
            assert value == expected or (math.isnan(value) and math.isnan(expected))


def test_what_comes_late_changes_nothing() -> None:
    ring = Ring(4)
    ring.put(10, 1.0)
    ring.put(9, 2.0)
    assert ring.last(10)[-1] == 1.0 and math.isnan(ring.last(10)[-2])


@pytest.mark.parametrize("ahead_s", [3600.0, 86400.0, 400 * 86400.0])
def test_what_was_before_the_clock_was_set_back_holds_up_nothing(ahead_s: float) -> None:
    past, now_s = Past(), 2e9
    past.look(now_s - STEP_S, {"jobs": 1.0}, ())
    past.look(now_s + ahead_s, {"jobs": 2.0}, ())
    past.chunks(now_s + ahead_s, "d", np.ones(3))
    for number in range(MOST_JOBS):
        past.job(now_s + ahead_s, f"ahead {number}", {"bytes_per_s": 1.0})
    past.look(now_s, {"jobs": 3.0}, ())
    past.job(now_s, "job", {"bytes_per_s": 4.0})
    past.chunks(now_s, "d", np.zeros(3))
    told = past.told(now_s, False, ["job"], "d")
    assert told["cluster"]["jobs"][-1] == 3.0 and told["jobs"]["job"]["bytes_per_s"][-1] == 4.0
    assert set(base64.b64decode(told["heat"]["cells"])) == {0, NOTHING}
    assert past.told(now_s, True, [], "")["cluster"]["jobs"][-1] in (2.0, 3.0)  # mean of those of its time
    past.look(now_s + STEP_S, {"jobs": 5.0}, ())
    assert past.told(now_s + STEP_S, False, [], "")["cluster"]["jobs"][-2:] == [3.0, 5.0]


def test_the_day_is_the_mean_of_its_parts_and_bad_figures_are_left_out() -> None:
    series = Series()
    for step in range(COARSE * 2):
        series.put(step, float(step))
    series.put(COARSE * 2, math.inf)
    assert series.told(COARSE * 2 - 1, day=False)[-2:] == [COARSE * 2 - 2, COARSE * 2 - 1]
    assert series.told(COARSE * 2 - 1, day=True)[-2:] == [5.5, 17.5]
    assert series.told(COARSE * 2, day=False)[-1] is None
    assert len(series.told(0, day=True)) == DAY_STEPS and len(series.told(0, day=False)) == HOUR_STEPS


def test_epochs_from_when_they_were_first_to_when_they_were_last_seen() -> None:
    seen = Epochs()
    for at in range(0, 40, 10):
        seen.look([(1, "job", "data", b"d", 3, at / 40)], DAY + at)
    seen.look([(2, "job", "data", b"d", 4, 0.0)], DAY + 40)
    one, other = seen.told(DAY, 10)
    assert (one["began_s"], one["ended_s"], one["epoch"], one["done"]) == (DAY - 5, DAY + 35, 3, 0.75)
    assert (other["began_s"], other["ended_s"], other["epoch"]) == (DAY + 35, DAY + 45, 4)
    seen.look([], DAY + 200)
    assert [told["epoch"] for told in seen.told(DAY, 10)] == [3, 4], "those that nobody reads any more"
    assert seen.told(DAY + 100, 10) == []


def test_epochs_are_of_the_name_that_their_data_set_has_now() -> None:
    seen = Epochs()
    seen.look([(1, "job", "before", b"renamed", 0, 0.5), (2, "job", "gone", b"deleted", 0, 0.5)], DAY)
    names = {b"renamed": "now"}
    assert [one["dataset"] for one in seen.told(DAY, 10, lambda key: names.get(key, ""))] == ["now", "gone"]


def test_an_epoch_that_is_read_for_hours_is_told_beside_however_many_that_began_since() -> None:
    seen = Epochs()
    for number in range(100):
        at_s = DAY + 10.0 * number
        seen.look(
            [(1, "long", "data", b"d", 0, number / 100), (2 + number, f"short-{number}", "data", b"d", 0, 1.0)], at_s
        )
    assert "long" in [told["job"] for told in seen.told(DAY, 10)]


@pytest.mark.parametrize("ahead_s", [20.0, 5 * 3600.0])
def test_epochs_never_end_before_they_began_when_the_clock_is_set_back(ahead_s: float) -> None:
    seen = Epochs()
    seen.look([(1, "job", "data", b"d", 3, 0.1), (2, "job", "data", b"d", 4, 0.1)], DAY)
    seen.look([(1, "job", "data", b"d", 3, 0.5), (3, "ahead", "data", b"d", 1, 0.5)], DAY + ahead_s)
    seen.look([(4, "ahead", "data", b"d", 2, 0.5)], DAY + ahead_s + 61)
    seen.look([(1, "job", "data", b"d", 3, 0.9)], DAY + 10)
    seen.look([(1, "job", "data", b"d", 3, 1.0)], DAY + 100)
    told = seen.told(0, 10)
    assert all(DAY - 5 <= one["began_s"] < one["ended_s"] <= DAY + 105 for one in told), told
    assert [one["epoch"] for one in told if one["ended_s"] > DAY + 100] == [3], "nobody reads the others any more"


def test_epochs_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epochs_module, "MOST_OPEN", 5)
    seen = Epochs()
    for at in range(10):
        seen.look(
            [(number, "j" * 1000, "d", b"d", number, 0.0) for number in range(at * 100, at * 100 + 100)], DAY + at * 100
        )
    told = seen.told(0, 1000)
    assert 0 < len(told) <= 50 and max(len(one["job"]) for one in told) <= 200


def test_of_more_data_sets_than_are_kept_those_that_came_first_have_all_of_their_past() -> None:
    past, coarse_s = Past(), COARSE * STEP_S
    for look in range(5):
        for number in range(MOST_DATASETS + 1):
            past.chunks(DAY + look * coarse_s, f"{number}", np.ones(3))
    now_s = DAY + 4 * coarse_s
    told = past.told(now_s, True, [], "0")["heat"]
    assert base64.b64decode(told["cells"])[-6 * 3 :] == bytes([NOTHING] * 3 + [FULL] * 15), "not the last look alone"
    assert past.told(now_s, True, [], f"{MOST_DATASETS}")["heat"] is None
    past.chunks(now_s + 4 * coarse_s, f"{MOST_DATASETS}", np.ones(3))
    assert past.told(now_s + 4 * coarse_s, True, [], f"{MOST_DATASETS}")["heat"], "in place of one that nobody follows"
    past.chunks(now_s - 100 * coarse_s, "back", np.ones(3))
    assert past.told(now_s, True, [], "back")["heat"], "the clock was set back"


def cells(heat: HeatMap, until: int) -> np.ndarray:
    told = heat.told(until)
    rows, columns = int(str(told["rows"])), int(str(told["columns"]))
    return np.frombuffer(base64.b64decode(str(told["cells"])), np.uint8).reshape(columns, rows)


@given(st.integers(1, 300))
def test_chunks_are_rows_a_few_together_where_they_are_many(chunks: int) -> None:
    heat = HeatMap(4)
    heat.put(7, np.linspace(0, 1, chunks))
    shown = cells(heat, 7)
    assert shown.shape == (4, min(chunks, heat_module.MOST_ROWS))
    assert (shown[:3] == NOTHING).all() and (np.diff(shown[3].astype(int)) >= 0).all()
    heat.put(9, np.ones(chunks))
    shown = cells(heat, 9)
    assert (shown[3] == FULL).all() and (shown[2] == NOTHING).all() and not (shown[1] == NOTHING).any()
    heat.put(10, np.zeros(chunks + 1 if chunks < heat_module.MOST_ROWS else 1))
    assert (cells(heat, 10)[:3] == NOTHING).all(), "other chunks than before"


@given(st.binary(max_size=500))
def test_shares_of_runs_are_those_of_the_whole(resident: bytes) -> None:
    shares = shares_of_ranges(resident)
    assert len(shares) == min(len(resident), heat_module.MOST_ROWS)
    assert ((shares >= 0) & (shares <= 1)).all()
    if 0 < len(resident) <= heat_module.MOST_ROWS:
        assert shares.tolist() == [float(byte > 0) for byte in resident]


@pytest.mark.slow
def test_a_day_of_thousands_of_jobs_and_data_sets_is_bounded_and_can_be_told() -> None:
    tracemalloc.start()
    past = Past()
    for look in range(3):
        figures = {f"job-{number}": {"bytes_per_s": 1e8, "stall_share": 0.5} for number in range(MOST_JOBS * 2)}
        reads = ((number, f"job-{number}", "data", b"d", look, 0.5) for number in range(1000))
        past.look(DAY + look * STEP_S, {"read_bytes_per_s": 1e9, "jobs": 1000.0}, reads)
        for job, its in figures.items():
            past.job(DAY + look * STEP_S, job, its)
        for number in range(MOST_DATASETS * 2):
            past.chunks(DAY + look * STEP_S, f"{number:064x}", np.ones(130))
    held_bytes = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held_bytes < 16 << 20
    last, first = f"job-{MOST_JOBS * 2 - 1}", "job-0"
    told = past.told(DAY + 2 * STEP_S, False, [last, first, "nobody"], f"{0:064x}")
    assert set(told["jobs"]) == {first}, "they do not push one another out"
    assert told["jobs"][first]["stall_share"][-3:] == [0.5] * 3
    past.job(DAY + 60 * STEP_S, last, {"stall_share": 0.1})
    assert set(past.told(DAY + 60 * STEP_S, False, [last], "")["jobs"]) == {last}, "in place of one that reads no more"
    assert told["cluster"]["read_bytes_per_s"][-4:] == [None, 1e9, 1e9, 1e9]
    assert told["heat"]["rows"] == heat_module.MOST_ROWS
    assert len(json.dumps(told, allow_nan=False)) < 1 << 20
    assert past.told(DAY, True, [], "")["heat"] is None
