"""Nodes of a test, each a process with a cache directory of its own and what else its flags say."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.cluster import Server

NODE = "tfquiver.service.node.main"
StartNode = Callable[..., Server]


@contextmanager
def nodes_started(base: Path) -> Iterator[StartNode]:
    """What starts one, in `base`/`name`. At the end all are stopped, and must have ended as they were told to."""
    servers: list[Server] = []

    def start(*flags: str, name: str = "cache") -> Server:
        arguments = [f"--cache_dir={base / name}", "--quota=64MiB", *flags]
        server = Server(NODE, arguments, base / f"{name}.log")
        servers.append(server)
        return server.start()

    yield start
    for server in servers:
        assert server.stop() in (0, -signal.SIGKILL), server.log_tail()
