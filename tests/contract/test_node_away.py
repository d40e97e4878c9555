"""What a trainer's log says while its node is away: now and then, and that it is back."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from tfquiver import errors
from tfquiver.clock import ManualClock
from tfquiver.node_daemon_and_notes_in_directories import endpoints

AWAY_S, LOOK_S = 12 * 3600.0, 5.0


class Node:
    """That answers while `away_s` is 0; else, each look for it takes some of that."""

    def __init__(self) -> None:
        self.clock, self.away_s = ManualClock(), 0.0
        self.found = threading.Semaphore(0)
        self.its_end: socket.socket | None = None

    def connect(self, kept: endpoints.KeptEndpoint) -> tuple[Any, socket.socket]:
        if self.away_s > 0.0:
            self.clock.advance(LOOK_S)
            self.away_s -= LOOK_S
            raise errors.NotFoundError("no tfquiver-node answers in /cache; start one with --cache_dir=/cache")
        ours, self.its_end = socket.socketpair()
        self.found.release()
        return None, ours

    def go(self, away_s: float) -> None:
        self.away_s = away_s
        if self.its_end is not None:
            self.its_end.close()


class Library:
    def set_endpoint(self, name: str, socket_path: str, kept: int = -1) -> None:
        pass


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines = list[str]()
    for level in ("warning", "error"):
        monkeypatch.setattr(endpoints.logging, level, lambda text, *args: lines.append(text % args))
    return lines


def test_a_night_without_a_node_fills_no_log_and_its_end_is_told(
    monkeypatch: pytest.MonkeyPatch, said: list[str], tmp_path: Path
) -> None:
    node = Node()
    monkeypatch.setattr(endpoints.KeptEndpoint, "_connect", lambda self: node.connect(self))
    monkeypatch.setattr(endpoints, "_LAST_PAUSE_S", 0.0)
    kept = endpoints.KeptEndpoint("data", lambda: pytest.fail("not asked"), Library(), node.clock, "cache_dir /x")
    try:
        assert node.found.acquire(timeout=10)
        node.go(AWAY_S)
        assert node.found.acquire(timeout=60)
        node.go(0.0)
        assert node.found.acquire(timeout=10)
    finally:
        kept.close()
        node.go(0.0)
    gone, first, *later, back, gone_again, back_again = said
    assert gone == gone_again == "cache_dir /x: the node is gone; finding or starting it again"
    assert first.startswith(
        "cache_dir /x: the node has not answered for 5 s (no tfquiver-node answers in /cache; start one with "
    )
    assert "reconnect_timeout_s" in first
    assert 10 < len(later) < 40
    assert all("has not answered for" in line and "--cache_dir=/cache" in line for line in later)
    assert back == f"cache_dir /x: the node is back, after {AWAY_S:.1f} s"
    assert back_again == "cache_dir /x: the node is back, after 0.0 s"
