"""The client processes, from the side of the bench: all are given a command, all have done it."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from dataclasses import astuple
from pathlib import Path
from typing import Any

from tests.bench.thousand.scale import CLIENTS, Scale
from tests.support.cluster import die_with_parent, tensorflow_env

DEADLINE_S = 600.0


class Clients:
    """`async with`; the processes end with it, whatever happens."""

    def __init__(self, address: str, base: Path, scale: Scale, calls: str) -> None:
        """`calls`: together, apart or one_by_one."""
        self._arguments = [address, str(base)], [*map(str, astuple(scale)), calls]
        self.processes: list[Process] = []

    async def __aenter__(self) -> Clients:
        where, scale = self._arguments
        for index in range(CLIENTS):
            command = [sys.executable, "-m", "tests.bench.thousand.client", *where, str(index), *scale]
            process = await asyncio.create_subprocess_exec(
                *command, stdin=PIPE, stdout=PIPE, env=tensorflow_env(), preexec_fn=die_with_parent
            )
            self.processes.append(process)
        await asyncio.gather(*map(_answer, self.processes))
        return self

    async def __aexit__(self, *_: object) -> None:
        for process in self.processes:
            if process.returncode is None:
                process.kill()
            await process.wait()

    async def do(self, command: str) -> list[dict[str, Any]]:
        """What each says. Raises RuntimeError when one has ended."""
        for process in self.processes:
            assert process.stdin
            process.stdin.write(f"{command}\n".encode())
            await process.stdin.drain()
        return await asyncio.gather(*map(_answer, self.processes))


async def _answer(process: Process) -> dict[str, Any]:
    assert process.stdout
    async with asyncio.timeout(DEADLINE_S):
        line = await process.stdout.readline()
    if not line:
        raise RuntimeError(f"a client ended with {await process.wait()}; above is why")
    said: dict[str, Any] = json.loads(line)
    return said
