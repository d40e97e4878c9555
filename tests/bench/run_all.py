"""Runs every bench of this folder, one after the other: `python -m tests.bench.run_all [--quick]`.

Their last lines, one JSON object each, are also this program's output. Exit code 1 when any bench missed a bar.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
NOT_BENCHES = {"__init__", "bars", "run_all"}


def main() -> int:
    failed = []
    for path in sorted(HERE.glob("*.py")):
        if path.stem in NOT_BENCHES or "__main__" not in path.read_text():
            continue
        print(f"== {path.stem}", file=sys.stderr, flush=True)
        command = [sys.executable, "-m", f"tests.bench.{path.stem}", *sys.argv[1:]]
        done = subprocess.run(command, cwd=HERE.parents[1], stdout=subprocess.PIPE, text=True)
        print(done.stdout.strip().rpartition("\n")[2], flush=True)
        if done.returncode:
            failed.append(path.stem)
    if failed:
        print(f"missed a bar, or failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
