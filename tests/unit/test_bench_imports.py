"""What a bench must not have imported before it measures."""

from __future__ import annotations

import subprocess
import sys


def test_the_first_batchs_bench_has_imported_nothing_of_ours() -> None:
    """Its rows count what `import tfquiver` takes, in processes forked from one that has not."""
    told = "import sys, tests.bench.first_batch; print([name for name in sys.modules if name in ('tfquiver', 'grpc')])"
    found = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, timeout=60, check=True)
    assert found.stdout == "[]\n"
