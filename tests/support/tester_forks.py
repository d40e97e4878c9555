"""Processes of tests (`pytest -n`) are forks of one that has imported all files of tests: each of them would need ten
seconds of a processor for that.

`by_forks` tells pytest-xdist to start them by tests/support/forked_tester.py, which asks the program of
tests/support/warm_roots.py. That collects the tests once, with pytest itself, and forgets what it has found: what was
imported stays. Where it cannot be forked, because something that was imported has started a thread, say, each starts as
ever.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import types
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.warm_roots import TESTERS

_PROGRAM = Path(__file__).with_name("forked_tester.py")


def by_forks(specs: Iterable[Any], folder: Path, config: pytest.Config) -> None:
    """`specs`: of the processes to be, as pytest-xdist has them."""
    more = ["-c", str(config.inipath)] if config.inipath else []
    (folder / TESTERS).write_text(json.dumps([f"--rootdir={config.rootpath}", *more, *config.args]))
    for spec in specs:
        if spec.popen and not spec.python:
            spec.python = shlex.join([sys.executable, "-IS", str(_PROGRAM), str(folder)])


def prepare(arguments: Sequence[str]) -> None:
    """What does not go well the processes of tests say themselves."""
    own = [os.dup(number) for number in (1, 2)]
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123
        for number in (1, 2):
            os.dup2(nowhere.fileno(), number)
    try:
        # Not captured: what is imported may keep sys.stderr.
        pytest.main([*arguments, "--collect-only", "-q", "-s", "-n0", "-p", "no:cacheprovider"])
    finally:
        for stream, number, kept in zip((sys.stdout, sys.stderr), (1, 2), own, strict=True):
            stream.flush()
            os.dup2(kept, number)
            os.close(kept)


def become(code: str) -> None:
    """In the fork, with its descriptors: what `python -c CODE` does."""
    sys.argv = ["-c"]
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    exec(compile(code, "<string>", "exec"), main.__dict__)
