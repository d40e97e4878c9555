"""What comes between a reader and its end: signals, closes and the exit while another thread waits in it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import FrameType

import pytest

import tfquiver.reader
from tests.support import numbered
from tests.support.daemons import cache_dir_fixture, daemons
from tfquiver import errors
from tfquiver.reader import Epoch, Records, native

FILES, RECORDS = 2, 3000
paths = numbered.fixture(FILES, RECORDS, 40)
cache_dir = cache_dir_fixture()
# What is freed is overwritten, so that who uses it afterwards is found out.
PERTURBED = {**os.environ, "MALLOC_PERTURB_": "165"}


@pytest.fixture
def data(paths: list[Path], cache_dir: Path) -> Records:
    return tfquiver.reader.records([str(path) for path in paths], cache_dir=cache_dir, batch_size=2)


class _Interrupt(Exception):
    pass


def test_a_batch_that_comes_while_a_signal_does_is_not_lost(data: Records) -> None:
    """As Ctrl-C in a notebook, which goes on with the iterator: each record still comes once."""
    interrupts, refused = 0, 0

    def interrupt(number: int, frame: FrameType | None) -> None:
        if frame is not None and frame.f_code is native.NativeReader.next.__code__:
            raise _Interrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with data.epoch() as epoch:
            signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
            got: list[int] = []
            ended = False
            while not ended:
                try:
                    for batch in epoch:
                        got += [int.from_bytes(record[:8], "little") for record in batch]
                    ended = True
                except _Interrupt:
                    interrupts += 1
                    refused += _refuses_its_state(epoch)
            signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert sorted(got) == list(range(FILES * RECORDS))
    assert interrupts and refused


def _refuses_its_state(epoch: Epoch) -> bool:
    try:
        epoch.state()
    except errors.InvalidArgumentError as error:
        assert "interrupted" in str(error)
        return True
    except _Interrupt:
        pass
    return False


_ENDED = """
import sys, tfquiver.reader
from tfquiver import errors
data = tfquiver.reader.records(sys.argv[2:], cache_dir=sys.argv[1], batch_size=2)
for _ in range(20):
    epoch = data.epoch()
    next(epoch)
    epoch.close()
    for _ in range(3):
        try:
            next(epoch)
        except errors.CancelledError_:
            pass
    epoch.stop()
"""


def test_what_is_closed_says_so(data: Records, paths: list[Path], cache_dir: Path) -> None:
    command = [sys.executable, "-c", _ENDED, str(cache_dir), *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=PERTURBED)
    assert done.returncode == 0, done.stderr


def test_a_close_waits_for_who_waits_for_a_batch(data: Records, cache_dir: Path) -> None:
    (node,) = daemons(cache_dir)
    epoch = data.epoch()
    next(epoch)
    said: list[BaseException] = []

    def read() -> None:
        try:
            for _ in epoch:
                pass
        except errors.CancelledError_ as error:
            said.append(error)

    node.suspend()
    try:
        reader = threading.Thread(target=read)
        reader.start()
        epoch.close()
        reader.join(30)
        assert not reader.is_alive() and len(said) == 1
    finally:
        node.resume()


_EXITS = """
import sys, threading, time, tfquiver.reader
epoch = tfquiver.reader.records(sys.argv[2:], cache_dir=sys.argv[1], batch_size=2).epoch()
next(epoch)
begun = threading.Event()
def read():
    begun.set()
    for _ in epoch:
        pass
print("begun", flush=True)
sys.stdin.readline()
threading.Thread(target=read, daemon=True).start()
begun.wait()
time.sleep({pause_s})
"""


@pytest.mark.parametrize("pause_s", [0, 0.1])
def test_the_process_may_end_while_a_thread_waits_for_a_batch(
    data: Records, paths: list[Path], cache_dir: Path, pause_s: float
) -> None:
    (node,) = daemons(cache_dir)
    command = [sys.executable, "-c", _EXITS.format(pause_s=pause_s), str(cache_dir), *map(str, paths)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=PERTURBED
    ) as child:
        assert child.stdin and child.stdout and child.stderr
        assert child.stdout.readline() == b"begun\n"
        node.suspend()
        try:
            child.stdin.write(b"\n")
            child.stdin.flush()
            assert child.wait(60) == 0, child.stderr.read()
        finally:
            node.resume()
            child.kill()
