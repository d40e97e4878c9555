"""Runs the servers of a plan: started in order, started again when they end, stopped in the opposite order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from tfquiver import errors, plain_text
from tfquiver.local_cluster import plan, ports
from tfquiver.local_cluster.plan import ServerPlan, Wish
from tfquiver.local_cluster.restarts import Restarts
from tfquiver.local_cluster.server_process import ServerProcess
from tfquiver.node_daemon_and_notes_in_directories.up_file import Ports
from tfquiver.service.common_to_servers import begun_apart

T = TypeVar("T")
_LONGEST = 6000  # a path may have 4096 characters
# After so long the next ones are told to stop, too. By then a node has told its coordinator what it had to tell.
_IN_TURN_S, _NODE_S = 0.75, 1.5
_DISK_S = 2.0  # to look there, or to note something, before it goes on


class Supervisor:
    """`run` it once. Lives on one loop, which waits for no disk: who tells it to stop is heard while that hangs.

    Args:
      ports: to start with; a server that is started again takes the port that it had.
      logs: directory of the servers' logs.
      say: told, one line each, what happens to the servers.
      is_ours: whether the directory is still this cluster's: where it was deleted nothing is started any more, for
        somebody else may have made it again. Called in a thread of its own, as `begun` and `changed` are.
      progress: told, a line each, while they start: which are up, and which are waited for.
      begun: told the ports of now once the coordinator is up, before the node starts.
      changed: told when a server has ended, and when it runs again.
    """

    def __init__(
        self,
        wish: Wish,
        ports: Ports,
        logs: Path,
        environment: Mapping[str, str],
        say: Callable[[str], None],
        is_ours: Callable[[], bool] = lambda: True,
        progress: Callable[[str], None] = lambda line: None,
        begun: Callable[[Ports], None] = lambda ports: None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._wish, self.ports, self._logs, self._environment, self._say = wish, ports, logs, environment, say
        self._is_ours, self._progress, self._begun, self._changed = is_ours, progress, begun, changed
        self.metrics: dict[str, str] = {}  # name of a server -> where its metrics are; "": nowhere
        self.away: dict[str, str] = {}  # name of a server that has ended and is not back yet -> how
        self._running: dict[ServerPlan, ServerProcess] = {}
        self._one_tells, self._telling = asyncio.Lock(), set[asyncio.Task[None]]()

    async def run(self, stop: asyncio.Event, ready: Callable[[], None]) -> None:
        """Returns when `stop` is set and every server has ended; `ready` is called when all are ready.

        Raises UnavailableError: a server does not start, or not any more. All the others have been stopped then, too.
        """
        serving = asyncio.create_task(self._serve(ready))
        stopped = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait([serving, stopped], return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                await serving
        finally:
            serving.cancel()
            stopped.cancel()
            try:
                with suppress(asyncio.CancelledError, errors.TfquiverError):
                    await serving
            finally:  # whatever it was
                await self._stop()

    async def _serve(self, ready: Callable[[], None]) -> None:
        for number, step in enumerate(plan.servers(self._wish)):
            if number:
                self._progress(plan.progress(self._wish, number))
            if number == 1:
                await _apart(lambda: self._begun(self.ports))
            await _all([self._start(server) for server in step])
        ready()
        await _all([self._keep(server) for server in list(self._running)])

    async def _start(self, server: ServerPlan) -> None:
        """Raises UnavailableError naming the server."""
        environment = dict(self._environment)
        if server.kind in plan.WITH_TENSORFLOW:
            environment["CUDA_VISIBLE_DEVICES"] = "-1"  # the trainer's, who would find their memory taken
        if not plan.port(server, self.ports):
            self.ports = plan.with_port(server, self.ports, ports.lasting(self._is_unclaimed))
        arguments = plan.arguments(server, self._wish, self.ports)
        try:
            process, said = await ServerProcess.start(
                server.module, arguments, self._logs / f"{server.name}.log", environment
            )
        except errors.UnavailableError as error:
            named = errors.UnavailableError(f"the {server.name} did not start: {error}")
            for note in getattr(error, "__notes__", ()):
                named.add_note(note)
            raise named from error
        self._running[server] = process
        self.ports = plan.with_port(server, self.ports, int(said.get("port") or 0))
        self.metrics[server.name] = str(said.get("metrics") or "")

    def _is_unclaimed(self, port: int) -> bool:
        """Servers start side by side: a port that another was given is free until that one has got so far."""
        given = (self.ports.coordinator, self.ports.dispatcher, *self.ports.workers)
        return port not in given and ports.is_free(port)

    async def _keep(self, server: ServerPlan) -> None:
        """Starts it again whenever it ends. Raises UnavailableError when that is hopeless."""
        restarts, loop = Restarts(), asyncio.get_running_loop()
        while True:
            process = self._running[server]
            how = await process.wait()
            await self._check_ours(server, how)
            restarts.ended(loop.time())
            self._say(f"{server.name} (pid {process.pid}) ended: {how}; it is started again")
            self.away[server.name] = how
            await self._tell()
            while not restarts.hopeless:
                await asyncio.sleep(restarts.pause_s)
                await self._check_ours(server, how)
                try:
                    await self._start(server)
                except errors.UnavailableError as error:
                    restarts.failed()
                    self._say(plain_text.of_error(error, _LONGEST))
                    continue
                restarts.started()
                self._say(f"the {server.name} runs again (pid {self._running[server].pid})")
                del self.away[server.name]
                await self._tell()
                break
            else:
                raise errors.UnavailableError(
                    f"the {server.name} is given up: {restarts.hopeless}; see {self._logs / server.name}.log"
                )

    async def _check_ours(self, server: ServerPlan, how: str) -> None:
        """A disk that does not answer has lost nothing yet."""
        looking = asyncio.ensure_future(_apart(self._is_ours))
        answered, _ = await asyncio.wait([looking], timeout=_DISK_S)
        if answered and not looking.result():
            raise errors.UnavailableError(f"{self._wish.directory} was deleted: {server.name} ended ({how})")

    async def _tell(self) -> None:
        """Once the disk answers, if it does not soon; what is so by then, and nothing of before after it."""

        async def tell() -> None:
            async with self._one_tells:
                await _apart(self._changed)

        telling = asyncio.create_task(tell())
        self._telling.add(telling)
        telling.add_done_callback(self._telling.discard)
        told, _ = await asyncio.wait([telling], timeout=_DISK_S)
        if told:
            telling.result()

    async def _stop(self) -> None:
        """Readers before what they read from, as long as they end: of servers whose disk hangs each takes its time to
        give that up, and they take it together."""
        ending = list[asyncio.Task[None]]()
        for step in reversed(plan.servers(self._wish)):
            ended = [asyncio.create_task(self._stop_one(one)) for one in step if one in self._running]
            if ended:
                await asyncio.wait(ended, timeout=_NODE_S if step[0].kind == plan.NODE else _IN_TURN_S)
            ending += ended
        await asyncio.gather(*ending)

    async def _stop_one(self, server: ServerPlan) -> None:
        process = self._running[server]
        if not await process.stop():
            self._say(
                f"{server.name} (pid {process.pid}) is killed, but waits in the kernel, for its disk as a rule: it "
                "ends when that answers"
            )


async def _apart(call: Callable[[], T]) -> T:
    return await asyncio.wrap_future(begun_apart.begun("tfquiver up's disk", call))


async def _all(coroutines: Sequence[Coroutine[Any, Any, None]]) -> None:
    """As `gather`; when one fails the others are cancelled, and have ended."""
    tasks = [asyncio.create_task(one) for one in coroutines]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
