"""The C++ core's own tests, under AddressSanitizer + UBSan and under ThreadSanitizer."""

from __future__ import annotations

import subprocess

import pytest

from tests.ops import core_tests


@pytest.mark.timeout(600)
@pytest.mark.parametrize("sanitizer", sorted(core_tests.SANITIZERS))
def test_core(sanitizer: str) -> None:
    program = core_tests.build(sanitizer)
    result = subprocess.run([str(program), "--gtest_brief=1"], capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stdout[-8000:] + result.stderr[-8000:]
