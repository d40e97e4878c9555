"""A real coordinator on this loop, and a client of it over gRPC."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.support.coordinator_client import CoordinatorClient
from tfquiver.service.coordinator.server import CoordinatorServer


@asynccontextmanager
async def served(work_dir: Path) -> AsyncIterator[tuple[CoordinatorServer, CoordinatorClient]]:
    server = CoordinatorServer()
    await server.start(work_dir, "localhost:0")
    async with server, CoordinatorClient.connected(f"localhost:{server.bound_port}") as client:
        yield server, client
