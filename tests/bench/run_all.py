"""Runs every bench of this folder, one after the other, those of one subject together.

    python -m tests.bench.run_all [--quick] [--limit_s=SECONDS] [NAME...]

Their last lines, one JSON object each, are this program's output; one that ended without gets a line that says why.
Progress, and at the end what became of each, is on stderr. A bench that has not ended within its limit is interrupted,
so that it can take mounts and networks away, and then killed with all that it has started. One that lacks a package is
skipped, and says which. Exit code 1 when any bench missed a bar, failed, or did not end.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from tests.support import leaks, own_mounts
from tests.support.cluster import die_with_parent

HERE = Path(__file__).resolve().parent
# What they are about, in the order in which it is built on each other.
SUBJECTS = {
    "parts": ("store_insert", "node_to_reader", "warm_read", "store_bytes", "peer_transfer", "coordinator", "memory"),
    "one data set": (
        "lru_collapse", "figure7", "cold_jobs", "table3", "gantt", "accuracy", "homogeneous", "node_loss",
    ),
    "kills": ("exactly_once", "at_least_once"),
    "who gets the cache": (
        "quiver_figure6", "silod_table6", "silod_sweeps", "sim_vs_real", "probing", "probing_slower", "nobody_sets",
    ),
    "size": ("coordinator_scale", "coordinator_thousand", "many_files"),
    "data sets with names": ("prefetch", "fuse_read", "hoard_epochs", "hoard_network", "hoard_placement"),
    "what is read, and how": (
        "misses", "first_batch", "parse", "record_weights", "reservoir", "materialize", "oneaccess_tables",
        "one_stream", "service_transport", "torch_read",
    ),
    "running it": ("watching", "rolling_restart", "dashboard_soak"),
}  # fmt: skip
QUICK_LIMIT_S, WHOLE_LIMIT_S = 600.0, 7200.0  # most quick runs are meant to take less than 60 s, alone on the machine
_GRACE_S = 20.0


@dataclass(frozen=True)
class Ended:
    """`line`: its last one, for programs; `word`: what became of it, for people."""

    name: str
    line: str
    word: str
    ok: bool
    took_s: float
    skipped: bool = False


def run_in_turn(
    benches: Sequence[tuple[str, Sequence[str]]], limit_s: float, out: TextIO, say: TextIO, grace_s: float = _GRACE_S
) -> bool:
    """Name and command of each; whether all were well."""
    began, ended = time.monotonic(), list[Ended]()
    for number, (name, command) in enumerate(benches, 1):
        print(f"== {number} of {len(benches)}: {name} ({time.monotonic() - began:.0f} s)", file=say, flush=True)
        one = _run(name, command, limit_s, grace_s)
        ended.append(one)
        print(one.line, file=out, flush=True)
        print(f"-- {name}: {one.word} ({one.took_s:.0f} s)", file=say, flush=True)
    met, skipped = sum(one.ok and not one.skipped for one in ended), sum(one.skipped for one in ended)
    less = f", {skipped} skipped" if skipped else ""
    print(f"\n{met} of {len(ended)} benches met all of their bars{less}:", file=say)
    for one in ended:
        print(f"  {'  ' if one.ok else '! '}{one.name:22}{one.took_s:7.0f} s  {one.word}", file=say)
    say.flush()
    return all(one.ok for one in ended)


def _run(name: str, command: Sequence[str], limit_s: float, grace_s: float) -> Ended:
    """In a session of its own, to be killed as a whole; a daemon, in another one, is known by the mark it carries."""
    before, began, failed = leaks.look(sockets=False), time.monotonic(), ""
    # Not a pipe: what a bench leaves behind would keep it open.
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command, cwd=HERE.parents[1], stdout=output, start_new_session=True, preexec_fn=die_with_parent
        )
        try:
            process.wait(limit_s)
        except subprocess.TimeoutExpired:
            failed = f"TimeoutError: not ended within {limit_s:g} s"
        finally:
            _end(process, grace_s)
        output.seek(0)
        line = output.read().decode(errors="replace").strip().rpartition("\n")[2]
    took_s = time.monotonic() - began
    if left := leaks.await_gone(before, grace_s):
        failed = failed or f"left behind {'; '.join(left)}"
    told = _object(line)
    if not failed and told is None:
        failed = f"ended with {process.returncode}, without figures"
    if failed:
        line = json.dumps((told or {"bench": name, "figures": {}, "bars": {}}) | {"failed": failed, "ok": False})
        return Ended(name, line, failed, False, took_s)
    assert told is not None
    bars = told.get("bars", {}).items()
    missed = ", ".join(bar for bar, found in bars if isinstance(found, dict) and not found.get("met", True))
    skipped = f"skipped: {told['skipped']}" if told.get("skipped") and not missed else ""
    word = str(told.get("failed") or (f"missed {missed}" if missed else skipped or "met"))
    if process.returncode and word == "met":
        word = f"ended with {process.returncode}: see its figures"
    return Ended(name, line, word, process.returncode == 0, took_s, word == skipped)


def _end(process: subprocess.Popen[bytes], grace_s: float) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace_s)
    with contextlib.suppress(ProcessLookupError, PermissionError):  # nobody is left of it
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _object(line: str) -> dict[str, Any] | None:
    try:
        told = json.loads(line)
    except ValueError:
        return None
    return told if isinstance(told, dict) else None


def benches() -> list[str]:
    return [name for names in SUBJECTS.values() for name in names]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="these alone; default: all")
    parser.add_argument("--quick", action="store_true", help="each as short as it can be")
    limits = f"of each bench; default: {QUICK_LIMIT_S:g} with --quick, else {WHOLE_LIMIT_S:g}"
    parser.add_argument("--limit_s", type=float, help=limits)
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(benches()):
        parser.error(f"no such bench: {', '.join(sorted(unknown))}; there are {', '.join(benches())}")
    os.environ[leaks.MARK] = secrets.token_hex(8)
    own_mounts.begin()  # what a bench that is killed has mounted goes with it
    # What a script starts with `&` ignores Ctrl-C, and so would the benches, which are interrupted so.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    more = ["--quick"] if arguments.quick else []
    chosen = [
        (name, [sys.executable, "-m", f"tests.bench.{name}", *more])
        for name in benches()
        if name in arguments.names or not arguments.names
    ]
    limit_s = arguments.limit_s or (QUICK_LIMIT_S if arguments.quick else WHOLE_LIMIT_S)
    return 0 if run_in_turn(chosen, limit_s, sys.stdout, sys.stderr) else 1


if __name__ == "__main__":
    sys.exit(main())
