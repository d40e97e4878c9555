"""A pin is the floor of its job, whatever data sets it reads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfquiver.service.coordinator.probing.floors import floors

RATES = st.dictionaries(st.tuples(st.sampled_from("abc"), st.binary(min_size=1, max_size=1)), st.floats(0, 1e12))


def test_nine_tenths_of_the_pin_in_parts_as_the_job_reads() -> None:
    reads = {("a", b"1"): 30.0, ("a", b"2"): 10.0, ("b", b"1"): 5.0, ("c", b"1"): 0.0, ("c", b"2"): 0.0}
    found = floors({"a": 100.0, "c": 10.0, "to come": 1.0}, reads)
    assert found == pytest.approx({("a", b"1"): 67.5, ("a", b"2"): 22.5, ("c", b"1"): 4.5, ("c", b"2"): 4.5})


@given(RATES, st.dictionaries(st.sampled_from("abc"), st.floats(1e-3, 1e12)))
def test_no_job_has_a_floor_above_its_pin(reads: dict[tuple[str, bytes], float], pins: dict[str, float]) -> None:
    found = floors(pins, reads)
    for job, pin in pins.items():
        assert sum(rate for (name, _), rate in found.items() if name == job) <= pin
    assert all(key[0] in pins for key in found)
