"""Waits, with a bar that shows bytes, rate and the time that is left, until what was asked for is done."""

from __future__ import annotations

import sys
import time
from typing import Any

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from tfquiver import errors, plain_text
from tfquiver.cli import calls
from tfquiver.cli.dataset_commands import states
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb2

_WAIT_MS = 1000
_BEGUN_S = 3.0  # a listing of a store elsewhere may take longer
_PIN_S = 15.0  # one that was refused asks again after ten
_LOST_S = 60.0  # a coordinator that is restarted meanwhile is waited for


def bar() -> Progress:
    return Progress(
        TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(),
        TimeRemainingColumn(), console=calls.console(stderr=True), transient=True, disable=not sys.stderr.isatty(),
    )  # fmt: skip


def until_done(stub: Any, name: str, token: str, whom: str) -> tuple[pb2.NamedDataset, str]:
    """What it has become, and the last reason that was said meanwhile. Raises NotFoundError (somebody has deleted it),
    UnavailableError."""
    seen, said = 0, ""
    with bar() as shown:
        task = shown.add_task(name, total=None)
        state = pb2.NamedDataset.STATE_UNSPECIFIED
        while True:
            named = _next(stub, pb2.GetNamedDatasetRequest(name=name, seen=seen, wait_ms=_WAIT_MS), token, whom)
            seen = named.seen
            if named.state not in states.UNDER_WAY:
                return named, said
            if named.state != state:  # what was there already counts for no speed
                state = named.state
                shown.remove_task(task)
                task = shown.add_task(states.phrase(named).partition(" ")[0].lower(), completed=named.done_bytes)
            shown.update(task, completed=named.done_bytes, total=named.total_bytes or None)
            if named.reason and named.reason != said:
                said = named.reason
                print(f"tfquiver: {plain_text.plain(name)}: {plain_text.plain(said)}", file=sys.stderr, flush=True)


def until_begun(stub: Any, named: pb2.NamedDataset, token: str, whom: str) -> pb2.NamedDataset:
    """What it is when its source has been listed, or could not be; as it is then where that takes longer."""
    give_up_at_s = time.monotonic() + _BEGUN_S
    while named.state == pb2.NamedDataset.STATE_SCANNING and not named.total_bytes:
        left_ms = round(1000 * (give_up_at_s - time.monotonic()))
        if left_ms <= 0:
            break
        request = pb2.GetNamedDatasetRequest(name=named.spec.name, seen=named.seen, wait_ms=min(left_ms, _WAIT_MS))
        named = calls.ask(stub.Get, request, token, whom)
    return named


def until_kept(stub: Any, named: pb2.NamedDataset, token: str, whom: str) -> pb2.NamedDataset:
    """What it is when it has its room and places, or the coordinator has said why not."""
    give_up_at_s = time.monotonic() + _PIN_S
    while not named.reason and (states.is_unpinned(named) or states.is_unplaced(named)):
        if time.monotonic() >= give_up_at_s:
            break
        request = pb2.GetNamedDatasetRequest(name=named.spec.name, seen=named.seen, wait_ms=_WAIT_MS)
        named = _next(stub, request, token, whom)
    return named


def _next(stub: Any, request: pb2.GetNamedDatasetRequest, token: str, whom: str) -> pb2.NamedDataset:
    try:
        named: pb2.NamedDataset = calls.ask(stub.Get, request, token, whom)
    except errors.UnavailableError:
        named = calls.ask(stub.Get, request, token, whom, _LOST_S)
    return named
