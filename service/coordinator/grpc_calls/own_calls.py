"""How this coordinator finds out that what came before is read: it calls itself, the way that all others do.

What nodes send lies in sockets, in gRPC, or in the queue of calls of which the loop takes one in a turn. For how long
nothing says: where the process gets less of a processor than it needs that is seconds, though no turn is long.
"""

from __future__ import annotations

import asyncio

import grpc
from absl import logging

from tfquiver.grpc_plumbing import addresses, rpc
from tfquiver.grpc_plumbing.health import LIVE
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.proto.tfquiver.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from tfquiver.roles_and_tokens.identity import HEALTH_CHECK

_CALLS = 2  # one after the other: who has had to connect anew says what it is behind its first call
_PATIENCE_S, _AGAIN_S = 60.0, 1.0
_LONGEST_S = 600.0  # who cannot be called for so long may be shut off from itself alone
_NO_ANSWER = "this coordinator does not answer its own call to %s: %s"


class OwnCalls:
    """`address`: host:port or unix:/path, as the server listens on it."""

    def __init__(self, address: str, port: int) -> None:
        """`port`: that it has, where `address` leaves that open."""
        self._address, self._port = address, port
        self._is_answered = False  # ever

    async def all_read(self) -> None:
        """Returns when what was sent to this server before is read. At once where it cannot be called at all."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + _LONGEST_S
        try:
            address = await asyncio.to_thread(_reached_at, self._address, self._port)
        except OSError as error:  # a name that nobody knows any more
            every_n_seconds(logging.WARNING, _NO_ANSWER, 60, self._address, error)
            return
        async with rpc.aio_channel(address) as channel:
            ask = channel.unary_unary(
                HEALTH_CHECK,
                request_serializer=HealthCheckRequest.SerializeToString,
                response_deserializer=HealthCheckResponse.FromString,
            )
            answers = 0
            while answers < _CALLS:
                try:
                    await ask(HealthCheckRequest(service=LIVE), timeout=_PATIENCE_S)
                    answers, self._is_answered = answers + 1, True
                except grpc.RpcError as error:
                    every_n_seconds(logging.WARNING, _NO_ANSWER, 60, address, error.details() or error.code())
                    if not self._is_answered or loop.time() >= give_up_at:
                        return
                    await asyncio.sleep(_AGAIN_S)


def _reached_at(address: str, port: int) -> str:
    if address.startswith("unix:"):
        return address
    host, _ = addresses.split(address)
    number = addresses.to_bind(host)[0]
    if addresses.is_all(number):
        number = "::1" if ":" in number else "127.0.0.1"
    return addresses.joined(number, port)
