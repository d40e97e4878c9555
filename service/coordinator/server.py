"""A coordinator that listens: alone (main.py) or inside a node daemon."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc.aio

from tfquiver.grpc_plumbing import rpc
from tfquiver.grpc_plumbing.health import HealthService
from tfquiver.proto.tfquiver.v1 import coordinator_pb2_grpc, derived_datasets_pb2_grpc, named_datasets_pb2_grpc
from tfquiver.roles_and_tokens.identity import READERS, Always, Authority, Open
from tfquiver.service.common_to_servers import serving
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.grpc_calls.callers import Tokens
from tfquiver.service.coordinator.grpc_calls.calls_here import CallsHere
from tfquiver.service.coordinator.grpc_calls.own_calls import OwnCalls
from tfquiver.service.coordinator.grpc_calls.servicer import CoordinatorServicer
from tfquiver.service.coordinator.options import CoordinatorOptions

_STOP_GRACE_S = 1.0


class CoordinatorServer:
    """`start`, then `stop`, on the caller's event loop; once each."""

    def __init__(self) -> None:
        self._coordinator: Coordinator | None = None
        self._servicer: CoordinatorServicer | None = None
        self._servers: list[grpc.aio.Server] = []
        self._bound_port = 0
        self._health = HealthService(lambda: "" if self._coordinator else "it is stopping, or has not begun")

    @property
    def bound_port(self) -> int:
        """The TCP port it listens on; 0 on a Unix socket."""
        return self._bound_port

    @property
    def is_started(self) -> bool:
        return self._coordinator is not None

    @property
    def coordinator(self) -> Coordinator:
        """While it listens."""
        assert self._coordinator is not None
        return self._coordinator

    def calls_here(self) -> CallsHere:
        """While it listens, for the node that it is in: that one's most frequent calls, without gRPC."""
        assert self._servicer is not None
        return self._servicer.calls_here()

    async def start(
        self,
        work_dir: Path,
        address: str,
        tokens: Tokens | None = None,
        options: CoordinatorOptions | None = None,
        readers_address: str = "",
    ) -> None:
        """Serves on `address` (host:port, port 0: any; or unix:/path); returns when it does.

        Args:
          tokens: None: nobody is asked for one.
          readers_address: unix:/path of another socket, where everybody is a job with the name `readers`; "": none.

        Raises as Coordinator does, and UnavailableError when `address` cannot be listened on.
        """
        with serving.default_signals():  # on the loop's thread it waits for the disk
            coordinator = Coordinator(work_dir, options or CoordinatorOptions())
        try:
            with serving.default_signals():
                await coordinator.start()
            servicer = self._servicer = CoordinatorServicer(coordinator, tokens)
            port = await self._listen(servicer, tokens or Open(), address)
            self._bound_port = 0 if address.startswith("unix:") else port
            coordinator.caretaker.all_read = OwnCalls(address, port).all_read
            if readers_address:
                await self._listen(servicer, Always(READERS), readers_address)
        except BaseException:
            for server in self._servers:
                await server.stop(None)
            self._servers = []
            await coordinator.stop()
            raise
        self._coordinator = coordinator

    async def _listen(self, servicer: CoordinatorServicer, authority: Authority, address: str) -> int:
        server = rpc.new_server(authority)
        coordinator_pb2_grpc.add_CoordinatorServicer_to_server(servicer, server)
        self._health.add_to(server)
        derived_datasets_pb2_grpc.add_DerivedDatasetsServicer_to_server(servicer.derived_datasets, server)
        named_datasets_pb2_grpc.add_NamedDatasetsServicer_to_server(servicer.named_datasets, server)
        port = rpc.listen(server, address)
        await server.start()
        self._servers.append(server)
        return port

    async def stop(self) -> None:
        """Ends open calls within a second, writes the log, releases the directory. Harmless when not started."""
        servers, self._servers = self._servers, []
        coordinator, self._coordinator = self._coordinator, None
        if coordinator is None:
            return
        coordinator.release_waiters()
        if self._servicer:
            self._servicer.release_streams()
        await asyncio.gather(*(server.stop(_STOP_GRACE_S) for server in servers))
        await coordinator.stop()

    async def __aenter__(self) -> CoordinatorServer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.shield(self.stop())
