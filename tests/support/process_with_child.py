"""`python -m tests.support.process_with_child [CODE]`: says its child's number, and waits; or fails with that code."""

from __future__ import annotations

import json
import subprocess
import sys

if __name__ == "__main__":
    if len(sys.argv) > 1:
        print("first line\nlast line", file=sys.stderr)
        sys.exit(int(sys.argv[1]))
    child = subprocess.Popen(["sleep", "600"])
    print(json.dumps({"child": child.pid}), flush=True)
    child.wait()
