"""This machine: TensorFlow and the op, descriptors, memory."""

from __future__ import annotations

import contextlib
import json
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tfquiver.cli.doctor.finding import Finding, fail, ok, warn
from tfquiver.sizes_durations_amounts.amounts import of_bytes
from tfquiver.version import VERSION

_LEAST_DESCRIPTORS = 4096
_LEAST_MEMORY_BYTES = 1 << 30
_LOAD_S = 1200.0  # it may have to be compiled
_SAY_EVERY_S = 5.0
# In a process of its own: TensorFlow logs as it likes, and may end the process. First as servers load it, who say best
# what is missing; then as trainers do, whose import may fail where the C++ libraries are well: of a NumPy that does not
# fit, perhaps.
_LOAD = """
import json
from tfquiver import errors
from tfquiver.service.common_to_servers.tensorflow_servers import tensorflow_runtime
from tfquiver.service.common_to_servers.tensorflow_servers.without_keras import without_keras
try:
    runtime = tensorflow_runtime.load()
    found = {"tensorflow": runtime.version, "library": str(runtime.library.path)}
    with without_keras():
        import tensorflow
except errors.TfquiverError as error:
    found = {"error": str(error)}
except Exception as error:
    found = {"import": f"{type(error).__name__}: {error}"}
print("\\n" + json.dumps(found))
"""


def findings() -> Iterator[Finding]:
    yield ok("tfquiver", f"{VERSION}, Python {platform.python_version()}")
    yield _descriptors()
    yield _memory(Path("/sys/fs/cgroup"), Path("/proc/self/cgroup"))


def op() -> Finding:
    """It takes as long as `import tensorflow` without Keras: many seconds on a machine that is busy."""
    what = "TensorFlow and the op"
    with subprocess.Popen(
        [sys.executable, "-c", _LOAD], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace"
    ) as child:
        told = _told(child)
        if told is None:
            child.kill()
            do = "see what `python -m tfquiver.ops.compiling_and_loading.build` and `python -c 'import tensorflow'` say"
            return fail(what, f"not loaded within {_LOAD_S:.0f} s", do)
    out, err = told
    try:
        found = json.loads(out.strip().rpartition("\n")[2])
    except ValueError:
        words = err.strip().rpartition("\n")[2] or f"exit code {child.returncode}"
        return fail(what, f"the process that loads them ended: {words}", "try `python -c 'import tensorflow'`")
    if error := found.get("error"):
        return fail(what, "not here, or not together", error)
    if error := found.get("import"):
        do = "see all of it with `python -c 'import tensorflow'`; a package that it needs may be of another version"
        return fail(what, f"TensorFlow cannot be imported, as trainers do: {error}", do)
    return ok(what, f"TensorFlow {found['tensorflow']}, {Path(found['library']).name}")


def _told(child: subprocess.Popen[str]) -> tuple[str, str] | None:
    """What it printed until it ended; None: it has not in time. People who wait are told that something is compiled."""
    said, until = False, time.monotonic() + _LOAD_S
    while time.monotonic() < until:
        try:
            return child.communicate(timeout=_SAY_EVERY_S)
        except subprocess.TimeoutExpired as waiting:
            if not said and b"compiling" in (waiting.stderr or b""):
                said = True
                print("compiling the op for this TensorFlow: a few minutes, once", file=sys.stderr, flush=True)
    return None


def _descriptors() -> Finding:
    what = "open files"
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < _LEAST_DESCRIPTORS:
        do = "raise the hard limit (ulimit -Hn, LimitNOFILE=): a node needs one for each shard that readers hold"
        return warn(what, f"at most {hard} a process", do)
    most = "any number" if hard == resource.RLIM_INFINITY else hard
    return ok(what, f"a process may have {soft}" + f", and give itself up to {most}" * (soft != hard))


def _memory(groups: Path, own: Path) -> Finding:
    """What a container lets this process have counts, not what the machine has."""
    what = "memory"
    limit = min(_machine_bytes(), *_limits(groups, own), 1 << 62)
    if limit < _LEAST_MEMORY_BYTES:
        do = "give the container more, or the node less (--hot): what it decompresses for readers counts as its memory"
        return warn(what, f"{of_bytes(limit)} in this container", do)
    return ok(what, of_bytes(limit))


def _limits(groups: Path, own: Path) -> Iterator[int]:
    """Of this process's groups and of all that these are in: each may have one. Of both versions of cgroup(7)."""
    lines = own.read_text(errors="replace").splitlines() if own.exists() else []
    for _, controllers, name in (line.split(":", 2) for line in [*lines, "::/"] if line.count(":") >= 2):
        if controllers and "memory" not in controllers.split(","):
            continue
        root, file = (groups / "memory", "memory.limit_in_bytes") if controllers else (groups, "memory.max")
        group = root / name.strip("/")
        for above in (group, *group.parents):
            with contextlib.suppress(OSError, ValueError):  # no such group, or "max"
                yield int((above / file).read_text())
            if above == root:
                break


def _machine_bytes() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) << 10
    return 1 << 62
