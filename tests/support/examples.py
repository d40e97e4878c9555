"""More Hypothesis examples in every test, or fewer, its own number multiplied: TFQUIVER_TEST_EXAMPLES=10 for ten times.

`make test` draws a third, others each time, `make test-quick` a tenth; CI draws all.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from math import ceil

import pytest
from hypothesis import settings

FACTOR = float(os.environ.get("TFQUIVER_TEST_EXAMPLES") or 1)
_LEAST = 5  # where there are fewer than a test's own
_SETTINGS, _MACHINE = "_hypothesis_internal_use_settings", "_hypothesis_state_machine_class"


def multiply(items: Iterable[pytest.Item], limit_s: float, factor: float) -> int:
    """How many tests it found; those with more have as many times the time limit, too."""
    done: set[object] = set()
    for item in items:
        function, owner = getattr(item, "obj", None), getattr(item, "cls", None)
        if hasattr(function, _SETTINGS):
            holder, name = getattr(function, "__func__", function), _SETTINGS
        elif hasattr(function, _MACHINE):
            holder, name = owner, "settings"
        else:
            continue
        if holder not in done:  # one function may be several tests
            done.add(holder)
            given: settings = getattr(holder, name)
            least = min(_LEAST, given.max_examples)
            setattr(holder, name, settings(given, max_examples=max(least, ceil(given.max_examples * factor))))
        if factor > 1 and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(limit_s * factor))
    return len(done)
