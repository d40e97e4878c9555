"""How many connections the page's port has at a time, and how long one may be there without asking for anything."""

from __future__ import annotations

import asyncio
from typing import cast

from aiohttp import web

from tfquiver.service.common_to_servers import fair_places

MOST_CONNECTIONS = 256  # a page that is open has two
SILENT_S = 15.0


class Admission:
    """Called for each connection: what becomes a server of the application, or hangs up where there are too many. One
    address that has them all makes room for others.

    Those that have not asked within SILENT_S go, with half a request, too: whoever opens them would else keep all
    others away. (aiohttp's own limit of time begins with the first answer, in versions before 3.14.)
    """

    def __init__(self) -> None:
        self._silent: dict[asyncio.BaseProtocol, asyncio.TimerHandle] = {}
        self._of: dict[web.RequestHandler, str] = {}  # whose they are; who came last is last

    def of(self, server: web.Server) -> asyncio.Protocol:
        return _Comer(self, server)

    def admit(self, server: web.Server, transport: asyncio.Transport) -> None:
        there = set(server.connections)
        self._of = {handler: caller for handler, caller in self._of.items() if handler in there}
        peer = transport.get_extra_info("peername")
        comer = fair_places.caller(peer[0] if isinstance(peer, tuple) else "")
        if len(self._of) >= MOST_CONNECTIONS:
            leaving = fair_places.to_leave(self._of, comer)
            if leaving is None:
                transport.close()
                return
            del self._of[leaving]
            self.asked_by(leaving)
            leaving_transport = leaving.transport
            leaving.force_close()
            if leaving_transport is not None:
                leaving_transport.abort()  # a close waits until what was written is taken, which may be never
        handler = server()
        self._of[handler] = comer
        self._silent[handler] = asyncio.get_running_loop().call_later(SILENT_S, self._end, handler)
        transport.set_protocol(handler)
        handler.connection_made(transport)

    def asked(self, request: web.BaseRequest) -> None:
        """It has, whatever the answer is."""
        self.asked_by(request.protocol)

    def asked_by(self, handler: asyncio.BaseProtocol) -> None:
        if (ending := self._silent.pop(handler, None)) is not None:
            ending.cancel()

    def _end(self, handler: web.RequestHandler) -> None:
        del self._silent[handler]
        handler.force_close()


class _Comer(asyncio.Protocol):
    """A connection of which it is not known yet from where it comes."""

    def __init__(self, admission: Admission, server: web.Server) -> None:
        self._admission, self._server = admission, server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._admission.admit(self._server, cast(asyncio.Transport, transport))
