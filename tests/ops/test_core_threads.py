"""The C++ core's own tests, under ThreadSanitizer. In a file of its own: compiling takes a while, beside the other."""

from __future__ import annotations

import pytest

from tests.ops import core_tests

pytestmark = pytest.mark.long  # all of the core is compiled


@pytest.mark.timeout(600)
def test_core_with_thread_sanitizer() -> None:
    core_tests.run("thread")
