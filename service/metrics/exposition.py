"""One HTTP port where Prometheus finds what a server tells: `/metrics`, in the text formats of the official client."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import socketserver
import threading
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import TimeoutError as NotInTime
from typing import TYPE_CHECKING, Any
from wsgiref import simple_server

from absl import logging
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, make_wsgi_app
from prometheus_client.core import InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from tfquiver import errors
from tfquiver.grpc_plumbing import addresses, rpc
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.service.common_to_servers import fair_places
from tfquiver.service.metrics.instruments import CALLS, FAULTS, LOOP_LAG
from tfquiver.service.metrics.loop_lag import measured_lag
from tfquiver.version import VERSION

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

Families = Callable[[], AsyncIterable[Metric]]

MOST_AT_ONCE = 8  # scrapes; of who has the most the last one is hung up on
_SILENT_S = 5.0
_ACCEPT_PAUSE_S = 0.1
_NEEDED_S = 1.0  # who takes longer to ask, or to take the answer, makes room for others where all places are taken
_REQUEST = "tfquiver.request"
ANSWER_S = 5.0
LONGEST_S = 15.0  # of one scrape, from its first byte to its last: who sends one now and then is never silent


class OnLoop(Collector):
    """Asks `families` on the event loop, because what it looks at lives there. A loop that is late is not waited for
    longer than five seconds: the scrape then lacks what only it knows, and shows how late it is."""

    def __init__(self, loop: asyncio.AbstractEventLoop, families: Families) -> None:
        self._loop, self._families = loop, families

    def describe(self) -> Iterable[Metric]:
        return []  # nothing that has to be asked for at registration

    def collect(self) -> Iterable[Metric]:
        async def asked() -> list[Metric]:
            return [family async for family in self._families()]

        future = asyncio.run_coroutine_threadsafe(asked(), self._loop)
        try:
            return future.result(ANSWER_S)
        except NotInTime:
            future.cancel()
            every_n_seconds(logging.WARNING, "a scrape was not answered within %g s", 60, ANSWER_S)
            return []


class Build(Collector):
    """Which server this is, and of which version."""

    def __init__(self, server: str) -> None:
        self._family = InfoMetricFamily("tfquiver_build", "Which server this is, and of which version.")
        self._family.add_metric([], {"server": server, "version": VERSION})

    def collect(self) -> Iterable[Metric]:
        return [self._family]


async def nothing() -> AsyncIterator[Metric]:
    """The families of a server that has none but instruments."""
    return
    yield


class _Quiet(simple_server.WSGIRequestHandler):
    timeout = _SILENT_S

    def get_environ(self) -> dict[str, Any]:
        return super().get_environ() | {_REQUEST: self.request}

    def log_message(self, format: str, *args: object) -> None:
        """A scrape is no news."""


class _Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, listening: socket.socket) -> None:
        super().__init__(listening.getsockname()[:2], _Quiet, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self.server_name, self.server_port = "", listening.getsockname()[1]
        self._lock = threading.Lock()
        self._begun: dict[socket.socket, float] = {}
        self._of: dict[socket.socket, str] = {}  # who has begun them
        self._answered = set[socket.socket]()  # those who wait for us: an answer that is late is not their fault
        self.setup_environ()

    def service_actions(self) -> None:
        """Twice a second: who takes too long is hung up on. Its thread ends with that."""
        latest = time.monotonic() - LONGEST_S
        with self._lock:
            for request in [one for one, begun in self._begun.items() if begun < latest]:
                with contextlib.suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)

    def get_request(self) -> tuple[socket.socket, object]:
        """Whoever waits to be accepted would wake the thread again at once; descriptors come back when others leave."""
        try:
            return super().get_request()
        except OSError as error:
            every_n_seconds(logging.WARNING, "a scrape of the metrics cannot be accepted: %s", 60, error)
            time.sleep(_ACCEPT_PAUSE_S)
            raise

    def process_request(self, request, client_address) -> None:  # type: ignore[no-untyped-def]
        comer = fair_places.caller(client_address[0])
        with self._lock:
            if has_place := len(self._begun) < MOST_AT_ONCE or self._made_room(comer):
                self._begun[request], self._of[request] = time.monotonic(), comer
        if not has_place:
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # there is no thread for it
            self._over(request)
            raise

    def _made_room(self, comer: str) -> bool:
        """By hanging up on somebody else. Under the lock; its thread ends with that."""
        latest = time.monotonic() - _NEEDED_S
        waited_for = (one for one, begun in self._begun.items() if begun < latest and one not in self._answered)
        overdue = next(waited_for, None)
        if (leaving := fair_places.to_leave(self._of, comer, overdue)) is None:
            return False
        del self._begun[leaving], self._of[leaving]
        with contextlib.suppress(OSError):
            leaving.shutdown(socket.SHUT_RDWR)
        return True

    def process_request_thread(self, request, client_address) -> None:  # type: ignore[no-untyped-def]
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._over(request)

    def answering(self, app: WSGIApplication) -> WSGIApplication:
        def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
            request = environ[_REQUEST]
            with self._lock:
                self._answered.add(request)
            try:
                return app(environ, start_response)
            finally:
                with self._lock:
                    self._answered.discard(request)

        return answer

    def _over(self, request: socket.socket) -> None:
        with self._lock:
            self._begun.pop(request, None)
            self._of.pop(request, None)

    def handle_error(self, request: object, client_address: object) -> None:
        every_n_seconds(logging.WARNING, "a scrape of the metrics broke off", 60, exc_info=True)


@contextlib.contextmanager
def exposed(address: str, server: str, families: Families, instruments: Iterable[Collector] = ()) -> Iterator[str]:
    """Serves as long as the context lasts, on the running loop's behalf; gives the address it is at, as host:port.

    Args:
      address: of --metrics_address: host:port, port 0: any free one; "": nothing is served, and "" is given.
      server: which of ours it is, for `tfquiver_build_info`.
      families: asked on the running loop at each scrape.
      instruments: told beside them, and what the process is, and how late its loop.

    Raises UnavailableError naming the flag.
    """
    if not address:
        yield ""
        return
    listening = _listen(address)
    registry = CollectorRegistry()
    for make in (ProcessCollector, PlatformCollector, GCCollector):
        make(registry=registry)
    for one in (Build(server), LOOP_LAG, CALLS, FAULTS, *instruments, OnLoop(asyncio.get_running_loop(), families)):
        registry.register(one)
    for method in rpc.handled_methods():
        FAULTS.labels(method)  # what begins with the first fault does not rise by it
    rpc.on_served(_count)
    listening.set_app(listening.answering(make_wsgi_app(registry)))
    # The thread is a daemon: one that hangs does not keep the process.
    threading.Thread(target=listening.serve_forever, name="metrics", daemon=True).start()
    try:
        with measured_lag():
            host, _ = addresses.split(address)
            yield addresses.joined(host, listening.server_port)
    finally:
        rpc.on_served(None)
        listening.shutdown()
        listening.server_close()


def _count(method: str, code: str, took_s: float) -> None:
    CALLS.labels(method, code).observe(took_s)
    if code == "INTERNAL":
        FAULTS.labels(method).inc()


def _listen(address: str) -> _Server:
    host, port = addresses.split(address)
    try:
        return _Server(addresses.listen(host, port, MOST_AT_ONCE))
    except (OSError, UnicodeError, OverflowError) as error:
        raise errors.UnavailableError(f"--metrics_address: cannot listen on {address}: {error}") from error
