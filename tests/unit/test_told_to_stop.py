"""Commands that run until they are told to stop, and are told once more."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import tfquiver
from tfquiver.cli import told_to_stop

TOLD = """
import asyncio, os, signal, sys
from tfquiver.cli import told_to_stop

def tell(*numbers):
    for number in numbers:
        os.kill(os.getpid(), number)

class Last:
    def __del__(self):  # the interpreter has given up its handlers by now
        tell(signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        os.write(1, b"the end\\n")

async def main():
    stop = asyncio.Event()
    def told():
        print("told", flush=True)
        stop.set()
    with told_to_stop.told(told):
        tell(signal.SIGHUP, signal.SIGINT)
        await stop.wait()
        tell(signal.SIGTERM)
        await asyncio.sleep(0)

last = Last()
asyncio.run(main())
tell(signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
sys.exit(7)
"""


def test_who_tells_it_again_changes_nothing() -> None:
    """A second signal in the last tenth of a second was the exit status."""
    env = {**os.environ, "PYTHONPATH": str(Path(tfquiver.__file__).parent.parent)}
    done = subprocess.run([sys.executable, "-c", TOLD], env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (7, "told\nthe end\n", "")


@pytest.mark.parametrize("before", [signal.SIG_IGN, signal.SIG_DFL])
def test_what_was_not_told_is_as_it_was_and_what_is_ignored_stays_so(before: signal.Handlers) -> None:
    was = signal.signal(signal.SIGHUP, before)
    try:
        asyncio.run(_hangs_up_where_that_is_ignored(before))
        assert signal.getsignal(signal.SIGHUP) is before
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGHUP, was)


async def _hangs_up_where_that_is_ignored(before: signal.Handlers) -> None:
    stop = asyncio.Event()
    with told_to_stop.told(stop.set):
        if before is signal.SIG_IGN:
            os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.sleep(0)
        assert not stop.is_set()
