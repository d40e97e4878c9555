"""More Hypothesis examples in every test, its own number multiplied: TFQUIVER_TEST_EXAMPLES=10 for ten times."""

from __future__ import annotations

import os
from collections.abc import Iterable

import pytest
from hypothesis import settings

FACTOR = int(os.environ.get("TFQUIVER_TEST_EXAMPLES") or 1)
_SETTINGS, _MACHINE = "_hypothesis_internal_use_settings", "_hypothesis_state_machine_class"


def multiply(items: Iterable[pytest.Item], limit_s: float, factor: int) -> int:
    """How many tests it found; each has as many times the time limit, too."""
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
            setattr(holder, name, settings(given, max_examples=given.max_examples * factor))
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(limit_s * factor))
    return len(done)
