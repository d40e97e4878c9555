"""Ctrl-C, wherever it finds a call: what asked ends."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support import warm

_INTERRUPTED = """
import signal, sys, threading, time
from tfquiver.grpc_plumbing import rpc
from tfquiver.grpc_plumbing.kept_channels import KeptChannels

def interrupt(frame, event, argument):
    leaves_lock = event == "call" and frame.f_code is threading.Condition.__exit__.__code__
    if leaves_lock and frame.f_back.f_code.co_name == "create":
        sys.setprofile(None)
        signal.raise_signal(signal.SIGINT)

def asks(channel):
    method = channel.unary_unary("/tfquiver.v1.Nobody/IsThere")
    sys.setprofile(interrupt)
    method.future(b"", timeout=600, wait_for_ready=True)
    sys.setprofile(None)
    print("was not interrupted")

began_s = time.monotonic()
try:
    {asking}
except KeyboardInterrupt:
    print("ended")
"""
_ASKING = {
    "a channel": 'with rpc.channel("localhost:1") as channel: asks(channel)',
    "a kept channel": """
    with KeptChannels() as kept, kept.channel("localhost:1") as channel: asks(channel)""",
    "a channel that is closed at last": """
    channel = rpc.channel("localhost:1")
    try: asks(channel)
    finally: channel.close()""",
}


@pytest.mark.parametrize("asking", _ASKING.values(), ids=_ASKING)
def test_a_call_that_was_half_begun_holds_nobody(asking: str) -> None:
    """gRPC had entered it in its books, and nobody looked after it."""
    command = [sys.executable, "-c", _INTERRUPTED.format(asking=asking)]
    done = warm.run(command, stdout=subprocess.PIPE, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("ended\n", 0)
