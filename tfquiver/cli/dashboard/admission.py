"""How many connections the page's port has at a time, and how long one may be there without asking for anything."""

from __future__ import annotations

import asyncio

from aiohttp import web

MOST_CONNECTIONS = 256  # a page that is open has two
SILENT_S = 15.0


class Admission:
    """Called for each connection: a server of the application, or what hangs up where there are too many.

    Those that have not asked within SILENT_S go, with half a request, too: whoever opens them would else keep all
    others away. (aiohttp's own limit of time begins with the first answer, in versions before 3.14.)
    """

    def __init__(self) -> None:
        self._silent: dict[asyncio.BaseProtocol, asyncio.TimerHandle] = {}

    def of(self, server: web.Server) -> asyncio.Protocol:
        if len(server.connections) >= MOST_CONNECTIONS:
            return _HangUp()
        handler = server()
        self._silent[handler] = asyncio.get_running_loop().call_later(SILENT_S, self._end, handler)
        return handler

    def asked(self, request: web.BaseRequest) -> None:
        """It has, whatever the answer is."""
        if (ending := self._silent.pop(request.protocol, None)) is not None:
            ending.cancel()

    def _end(self, handler: web.RequestHandler) -> None:
        del self._silent[handler]
        handler.force_close()


class _HangUp(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()
