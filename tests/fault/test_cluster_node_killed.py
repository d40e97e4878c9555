"""A cluster's node is killed under a process that named its directory alone."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.support.cluster import Server, wait_until
from tfquiver.node_daemon_and_notes_in_directories import daemon, endpoints


class _NoOp:
    def set_endpoint(self, name: str, socket_path: str, kept: int = -1) -> None: ...


@pytest.mark.parametrize("kill", [True, False])
def test_it_waits_for_that_node_and_starts_none_of_its_own(tmp_path: Path, kill: bool) -> None:
    """It started one with a coordinator of its own, which knew none of the cluster's data sets and kept the cluster's
    own node out."""
    cache_dir = tmp_path / "cache"
    coordinator = Server(
        "tfquiver.service.coordinator.main",
        [f"--work_dir={tmp_path / 'work'}", "--port=0"],
        tmp_path / "coordinator.log",
    ).start()
    address = f"localhost:{coordinator.ready['port']}"
    flags = [f"--cache_dir={cache_dir}", f"--coordinator={address}"]
    node = Server("tfquiver.service.node.main", flags, tmp_path / "node.log").start()
    try:
        found = endpoints.acquire("cache-test", lambda: daemon.find_or_start(cache_dir, timeout_s=1.0), _NoOp())
        assert found.coordinator == address
        node.kill() if kill else node.stop()
        give_up_at = time.monotonic() + 3.0
        while time.monotonic() < give_up_at:
            assert daemon.find(cache_dir) is None
        node = Server("tfquiver.service.node.main", flags, tmp_path / "node.log").start()
        wait_until(lambda: endpoints.current("cache-test") not in (None, found), "the node that is back is found")
        back = endpoints.current("cache-test")
        assert back is not None and back.coordinator == address
    finally:
        endpoints.close_all()
        node.stop()
        coordinator.stop()
