"""`tfquiver dashboard` as a process, and its page in a browser."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.support import warm

GIVE_UP_S = 120.0


@contextmanager
def served(*where: str) -> Iterator[str]:
    """The link; `where` and flags of the command."""
    command = [sys.executable, "-m", "tfquiver.cli.main", "dashboard", *where, "--no_browser"]
    with warm.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
            assert process.wait(30) == 0


def seen(driver: Any, what: str, right: Callable[[str], bool]) -> str:
    """The page's text, once it is right."""
    give_up_at = time.monotonic() + GIVE_UP_S
    while not right(text := str(driver.execute_script("return document.body.innerText"))):
        assert time.monotonic() < give_up_at, f"{what}: {text}"
        time.sleep(0.2)
    return text
