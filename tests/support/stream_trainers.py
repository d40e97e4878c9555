"""Trainers of one stream, each a process: what each was given, how fast, and how often anything was preprocessed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support import warm

_TRAINS = """
import json, os, sys, time
import tensorflow as tf
import tfquiver
given = json.loads(sys.argv[1])
counter = os.open(given["calls"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)

def count(number):
    os.write(counter, b"x")
    return number

def parse(record):
    number = tf.io.decode_raw(tf.strings.substr(record, 0, 8), tf.int64)[0]
    number = tf.ensure_shape(tf.numpy_function(count, [number], tf.int64), [])
    return number * given["times"], tf.strings.substr(record, 0, given["bytes"])

data = tfquiver.dataset(
    given["paths"], cache_dir=given["cache_dir"], order=tfquiver.Deterministic(7, shuffle_bytes=20_000),
    first_use=tfquiver.FirstUse(cut=tfquiver.CutPolicy(20_000, 50_000, 100_000)),
)
data = data.map(parse, num_parallel_calls=2).batch(given["batch"]).prefetch(2)
data = data.apply(tfquiver.one_stream(given["name"], **given["stream"]))
print("made", flush=True)
if given["waits"]:
    sys.stdin.readline()
for epoch in range(given["epochs"]):
    found = []
    for numbers, payloads in data:
        began = began if found else time.monotonic()
        last = time.monotonic()
        found.append([int(number) for number in numbers])
        if given["says"]:
            print(len(found), flush=True)
        if given["step_s"]:
            time.sleep(given["step_s"])
    print(json.dumps({"batches": found, "took_s": last - began}), flush=True)
"""


class Trainer:
    """One process; `calls`: a file that grows by a byte with every record that it preprocesses."""

    def __init__(
        self, paths: Sequence[Path], cache_dir: Path, calls: Path, *, step_s: float = 0.0, epochs: int = 1,
        batch: int = 16, bytes: int = 8, says: bool = False, times: int = 1, waits: bool = False,
        name: str = "shared", **stream: Any,
    ) -> None:  # fmt: skip
        given = {
            "paths": [str(path) for path in paths], "cache_dir": str(cache_dir), "calls": str(calls), "step_s": step_s,
            "epochs": epochs, "batch": batch, "bytes": bytes, "says": says, "times": times, "waits": waits,
            "name": name, "stream": stream,
        }  # fmt: skip
        self.process = warm.Popen(
            [sys.executable, "-c", _TRAINS, json.dumps(given)], warm_kind="tensorflow",
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def line(self) -> str:
        """The next that it prints; empty: it has ended."""
        assert self.process.stdout
        return str(self.process.stdout.readline()).strip()

    def go(self) -> None:
        """Of one that `waits`."""
        assert self.process.stdin
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def passes(self, timeout_s: float = 120) -> list[dict[str, Any]]:
        """What it was given in each epoch, when it has ended well."""
        out, err = self.process.communicate(timeout=timeout_s)
        assert self.process.returncode == 0, err[-4000:]
        return [json.loads(line) for line in out.splitlines() if line.startswith("{")]

    def end(self) -> None:
        with self.process:  # closes its pipes
            self.process.kill()
