"""A mount that was taken away while somebody sees it still ends when nobody has anything open there. Needs trio.

The kernel tells when nobody sees the mount any more. But whatever was started since it was made, and has mounts of
its own, sees it for as long as it runs: a container, `ip netns exec`. Where nothing sees it, somebody's working
directory is there (`--lazy`), with nothing open now: the kernel tells when he leaves.
"""

from __future__ import annotations

import functools
import os
import select
from collections.abc import Callable
from types import TracebackType

import trio

from tfquiver.mounting import mount_points

_LOOKS_EVERY_S = 0.5
_LOOKS_AGAIN_S = 5.0  # at all processes
_TROUBLE = (OSError, MemoryError, RuntimeError)  # there may be no descriptors or threads for a moment


class Changes:
    """Whether this process's mounts have changed, at the price of one call of the kernel, however many there are: to
    read the table of 10 000 takes 20 ms. Raises OSError."""

    def __init__(self) -> None:
        self._fd = os.open(mount_points.MOUNTS, os.O_RDONLY | os.O_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLPRI)

    def __enter__(self) -> Changes:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.close(self._fd)

    def any(self) -> bool:
        """Since this was made, or asked last."""
        return bool(self._poll.poll(0))


async def waited_for(mount: mount_points.Mount, is_in_use: Callable[[], bool], then: Callable[[], None]) -> None:
    """Calls `then` when the mount was taken away, something sees it still, and nothing is open there."""
    while True:
        try:
            with Changes() as changes:
                await _waited_for(mount, is_in_use, then, changes)
                return
        except _TROUBLE:  # who reads there reads on
            await trio.sleep(_LOOKS_EVERY_S)


async def _waited_for(
    mount: mount_points.Mount, is_in_use: Callable[[], bool], then: Callable[[], None], changes: Changes
) -> None:
    is_there, wait_s = await _in_thread(_is_mounted, mount), _LOOKS_EVERY_S
    while True:
        await trio.sleep(wait_s)
        if changes.any():
            is_there = await _in_thread(_is_mounted, mount)
        if is_there or is_in_use():
            continue
        if await _in_thread(mount_points.is_seen_elsewhere, mount) and not is_in_use():
            then()
            return
        wait_s = _LOOKS_AGAIN_S


def _is_mounted(mount: mount_points.Mount) -> bool:
    return mount.device in {one.device for one in mount_points.mounts()}


async def _in_thread(look: Callable[[mount_points.Mount], bool], mount: mount_points.Mount) -> bool:
    """So long nobody's read waits."""
    return await trio.to_thread.run_sync(functools.partial(look, mount), abandon_on_cancel=True)
