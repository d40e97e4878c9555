"""A view or a plan that cannot be right is told by the field."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.policy_world import GB, one_job_each
from tfquiver import errors
from tfquiver.service.coordinator.policies.views_and_plans.check import check_plan, check_view
from tfquiver.service.coordinator.policies.views_and_plans.interface import Allocation, ClusterView, JobView, Plan

NAN, INF = float("nan"), float("inf")
VIEW = one_job_each([100, 50], [1e8, 5e7], 120, 1e8)


@pytest.mark.parametrize("amount", [-1, 1 << 61, 1.5, NAN, True, None, "1"])
@pytest.mark.parametrize("key", ["size_bytes", "cooperative_bytes", "resident_bytes"])
def test_amounts_of_data_sets(key: str, amount: Any) -> None:
    odd = replace(VIEW.datasets[1], **{key: amount})
    with pytest.raises(errors.InvalidArgumentError, match=rf"^datasets\['d1'\]\.{key}: "):
        check_view(replace(VIEW, datasets=(VIEW.datasets[0], odd)))


@pytest.mark.parametrize("rate", [-1.0, 0, NAN, INF, 1e30, True, "fast"])
@pytest.mark.parametrize("key", ["ideal_bytes_per_s", "hit_bytes_per_s", "miss_bytes_per_s", "cooperative_bytes_per_s"])
def test_rates_of_jobs(key: str, rate: Any) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=rf"^jobs\['j0'\]\.{key}: "):
        check_view(replace(VIEW, jobs=(replace(VIEW.jobs[0], **{key: rate}),)))


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("cache_bytes", {"cache_bytes": -1}),
        ("remote_bytes_per_s", {"remote_bytes_per_s": NAN}),
        ("accelerators", {"accelerators": 0}),
        (r"jobs\['j0'\]\.accelerators", {"jobs": (replace(VIEW.jobs[0], accelerators=0),)}),
        (r"jobs\['j0'\]\.remaining_bytes", {"jobs": (replace(VIEW.jobs[0], remaining_bytes=NAN),)}),
        (r"jobs\['j0'\]\.remote_pin_bytes_per_s", {"jobs": (replace(VIEW.jobs[0], remote_pin_bytes_per_s=-1.0),)}),
        (r"jobs\.name", {"jobs": VIEW.jobs[:1] * 2}),
        (r"datasets\.name", {"datasets": VIEW.datasets[:1] * 2}),
        (r"datasets\.name", {"datasets": (replace(VIEW.datasets[0], name=""),)}),
        (r"datasets\['d0'\]\.pin", {"datasets": (replace(VIEW.datasets[0], pin=Allocation("all")),)}),  # type: ignore[arg-type]
        (
            r"datasets\['d0'\]\.pin\.cache_bytes",
            {"datasets": (replace(VIEW.datasets[0], pin=Allocation("none", 1)),)},
        ),
    ],
)
def test_other_fields(field: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=f"^{field}: "):
        check_view(replace(VIEW, **wrong))


def test_a_job_on_a_data_set_that_nobody_registered() -> None:
    with pytest.raises(errors.NotFoundError, match=r"^jobs\['new'\]\.dataset: no data set 'gone' is registered"):
        check_view(replace(VIEW, jobs=(JobView("new", "gone"),)))


def _plan(name: str, mode: Any, cache_bytes: Any) -> Plan:
    return Plan({name: Allocation(mode, cache_bytes)})


@pytest.mark.parametrize(
    ("plan", "error", "said"),
    [
        (None, errors.InvalidArgumentError, "plan: 'None' is not a Plan"),
        (_plan("x", "none", 0), errors.NotFoundError, "allocations: 'x' is not in the view"),
        (Plan(remote_bytes_per_s={"x": 1.0}), errors.NotFoundError, "remote_bytes_per_s: 'x' is not in the view"),
        (_plan("d0", "uniform", 101 * GB), errors.InvalidArgumentError, r"allocations\['d0'\].cache_bytes: "),
        (_plan("d0", "uniform", -1), errors.InvalidArgumentError, r"allocations\['d0'\].cache_bytes: -1"),
        (_plan("d0", "uniform", NAN), errors.InvalidArgumentError, r"allocations\['d0'\].cache_bytes: nan"),
        (_plan("d0", "none", 5), errors.InvalidArgumentError, r"allocations\['d0'\].cache_bytes: 5, but"),
        (_plan("d0", "cooperative", 4 * GB), errors.InvalidArgumentError, "but two chunks need 5.0 GB"),
        (_plan("d0", "best", 4 * GB), errors.InvalidArgumentError, r"allocations\['d0'\]: .*is none of none, coop"),
        (
            Plan({"d0": Allocation("uniform", 80 * GB), "d1": Allocation("lru", 41 * GB)}),
            errors.ResourceExhaustedError,
            "allocations: 121 GB, but pins leave 120 GB",
        ),
        (Plan({}, {"j0": NAN}), errors.InvalidArgumentError, r"remote_bytes_per_s\['j0'\]: nan is not a rate"),
        (Plan({}, {"j0": 6e7, "j1": 6e7}), errors.ResourceExhaustedError, "remote_bytes_per_s: 1.2e.08 in all"),
        (Plan(reasons=None), errors.InvalidArgumentError, "reasons: 'None' is no mapping"),  # type: ignore[arg-type]
        (Plan(reasons={"d0": 1.0}), errors.InvalidArgumentError, r"reasons\['d0'\]: '1.0' is no text"),  # type: ignore[dict-item]
        (Plan(reasons={"d0": "x" * 10**6}), errors.InvalidArgumentError, r"reasons\['d0'\]: 1000000 characters"),
    ],
)
def test_plans(plan: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=f"^.*{said}"):
        check_plan(plan, VIEW)


def test_pins_are_kept_and_may_be_more_than_there_is() -> None:
    """Nodes were lost: what people pinned is too much, and nobody else gets anything."""
    pin, rate = Allocation("uniform", 100 * GB), 3e7
    datasets = (replace(VIEW.datasets[0], pin=pin), VIEW.datasets[1])
    view = ClusterView(60 * GB, 1e8, datasets, (replace(VIEW.jobs[0], remote_pin_bytes_per_s=rate), VIEW.jobs[1]))
    check_plan(Plan({"d0": pin}, {"j0": rate}), view)
    with pytest.raises(errors.ResourceExhaustedError, match="allocations: 1 B, but pins leave 0 B"):
        check_plan(Plan({"d0": pin, "d1": Allocation("uniform", 1)}, {"j0": rate}), view)
    with pytest.raises(errors.InvalidArgumentError, match=r"allocations\['d0'\]: none with 0 B where uniform"):
        check_plan(Plan({}, {"j0": rate}), view)
    with pytest.raises(errors.InvalidArgumentError, match=r"remote_bytes_per_s\['j0'\]: no limit where 30000000.0"):
        check_plan(Plan({"d0": pin}), view)
