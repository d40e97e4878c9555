"""This machine: TensorFlow and the op, descriptors, memory."""

from __future__ import annotations

import json
import platform
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tfquiver.amounts import of_bytes
from tfquiver.cli.doctor.finding import Finding, fail, ok, warn
from tfquiver.version import VERSION

_LEAST_DESCRIPTORS = 4096
_LEAST_MEMORY_BYTES = 1 << 30
_LOAD_S = 300.0  # it may have to be compiled
# In a process of its own: TensorFlow takes seconds to import, logs as it likes, and may end the process.
_LOAD = """
import json, sys
from tfquiver import errors
try:
    import tensorflow as tf
    from tfquiver.ops.library import loader
    found = {"tensorflow": tf.__version__, "library": str(loader.load().path)}
except errors.TfquiverError as error:
    found = {"error": str(error)}
print("\\n" + json.dumps(found))
"""


def findings(with_op: bool) -> Iterator[Finding]:
    yield ok("tfquiver", f"{VERSION}, Python {platform.python_version()}")
    if with_op:
        yield _op()
    yield _descriptors()
    yield _memory(Path("/sys/fs/cgroup"), Path("/proc/self/cgroup"))


def _op() -> Finding:
    what = "TensorFlow and the op"
    command = [sys.executable, "-c", _LOAD]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LOAD_S, errors="replace")
    except subprocess.TimeoutExpired:
        return fail(what, f"not loaded within {_LOAD_S:.0f} s", "try `python -c 'import tensorflow'`")
    last = done.stdout.strip().rpartition("\n")[2]
    try:
        found = json.loads(last)
    except ValueError:
        words = done.stderr.strip().rpartition("\n")[2] or f"exit code {done.returncode}"
        return fail(what, f"the process that loads them ended: {words}", "try `python -c 'import tensorflow'`")
    if error := found.get("error"):
        return fail(what, "not here, or not together", error)
    return ok(what, f"TensorFlow {found['tensorflow']}, {Path(found['library']).name}")


def _descriptors() -> Finding:
    what = "open files"
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < _LEAST_DESCRIPTORS:
        do = "raise the hard limit (ulimit -Hn, LimitNOFILE=): a node needs one for each shard that readers hold"
        return warn(what, f"at most {hard} a process", do)
    return ok(what, f"{soft} a process, up to {'any number' if hard == resource.RLIM_INFINITY else hard}")


def _memory(groups: Path, own: Path) -> Finding:
    """What a container lets this process have counts, not what the machine has."""
    what = "memory"
    limit = _machine_bytes()
    name = own.read_text().strip().rpartition("::/")[2] if own.exists() else ""
    for group in (groups / name, groups):
        try:
            limit = min(limit, int((group / "memory.max").read_text()))
        except (OSError, ValueError):  # no such group, or "max"
            continue
    if limit < _LEAST_MEMORY_BYTES:
        do = "give the container more, or the node less (--hot): what it decompresses for readers counts as its memory"
        return warn(what, f"{of_bytes(limit)} in this container", do)
    return ok(what, of_bytes(limit))


def _machine_bytes() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) << 10
    return 1 << 62
