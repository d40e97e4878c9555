"""Runs a page of the documentation as its reader would: `python -m tests.support.pages PAGE.md`, in an empty folder.

What of it is run, from top to bottom and in one Python process, marks in the page say: tests/support/page_blocks.py.
A traceback names the page and its line. Nothing of this is for a page to know: it can be read without.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.support.cluster import die_with_parent
from tests.support.page_blocks import blocks

_ANY = "..."
_STARTED_S = 120.0
_ENDED_S = 60.0
_PROGRAM = re.compile(r"(?:\w+=\S+ +)*(?:tfquiver[ -])?(\w+)")


def matches(expected: str, printed: str) -> bool:
    """Whether `printed` is `expected`, in which `...` stands for anything, also for several lines or none."""
    pattern = ".*".join(re.escape(part) for part in expected.strip().split(_ANY))
    return (
        re.fullmatch(pattern, "\n".join(line.rstrip() for line in printed.strip().split("\n")), re.DOTALL) is not None
    )


def commands(text: str) -> Iterator[str]:
    """Those of a shell's lines that do something."""
    for line in re.sub(r"\\\n\s*", " ", text).split("\n"):
        if line.strip() and not line.lstrip().startswith("#"):
            yield line


@contextmanager
def going_on(command: str, until: str) -> Iterator[None]:
    """Beside what follows. Of a server `$NODE_PORT`, `$COORDINATOR_PORT` and so on is the port that it has told."""
    told = Path(f"going-on-{time.monotonic_ns()}")
    with told.open("wb") as out:  # bash becomes the command: it is the one that is ended
        process = subprocess.Popen(
            ["bash", "-euc", command], stdout=out, stderr=subprocess.STDOUT, preexec_fn=die_with_parent
        )
    give_up_at = time.monotonic() + _STARTED_S
    try:
        while not re.search(until, text := told.read_text()):
            if process.poll() == 0:
                break
            assert process.poll() is None, f"{command}: ended with {process.poll()}: {text}"
            assert time.monotonic() < give_up_at, f"{command}: {until} did not come: {text}"
            time.sleep(0.05)
        for line in text.splitlines():
            if line.startswith("{") and "port" in (ready := json.loads(line)) and (named := _PROGRAM.match(command)):
                os.environ[f"{named[1].upper()}_PORT"] = str(ready["port"])
        yield
    finally:
        process.terminate()
        process.wait(_ENDED_S)


def run(path: Path) -> None:
    """Runs a page here; what it prints goes to a file first, because its `sh` prints, too."""
    names: dict[str, Any] = {"__name__": "__main__"}
    shown = os.dup(1)
    with open("printed", "w+b") as printed, ExitStack() as held:  # noqa: PTH123 - in the page's own folder
        os.dup2(printed.fileno(), 1)
        read = 0
        try:
            for block in blocks(path.read_text()):
                if block.kind == "python":
                    exec(compile("\n" * (block.line - 1) + block.text, str(path), "exec", dont_inherit=True), names)
                elif block.until:
                    for command in commands(block.text):
                        held.enter_context(going_on(command, block.until))
                elif block.kind == "sh":
                    sys.stdout.flush()
                    subprocess.run(["bash", "-euc", block.text], check=True)
                elif block.kind == "file":
                    Path(block.name).write_text(block.text)
                elif block.kind == "output":
                    sys.stdout.flush()
                    text = os.pread(printed.fileno(), 1 << 20, read)
                    read += len(text)
                    if not matches(block.text, text.decode()):
                        raise AssertionError(f"{path}:{block.line}: printed was\n{text.decode()}")
        finally:
            sys.stdout.flush()
            os.dup2(shown, 1)


if __name__ == "__main__":
    run(Path(sys.argv[1]))
