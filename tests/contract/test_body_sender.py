from __future__ import annotations

import asyncio
import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tfquiver import errors
from tfquiver.service.node.bodies_sent_between_nodes import body_sender
from tfquiver.service.node.bodies_sent_between_nodes.body_sender import Body, BodySender


def pair() -> tuple[socket.socket, socket.socket]:
    """(to send, to receive), with a buffer so small that every few sips make the sender writable."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        receiving = socket.create_connection(listener.getsockname())
        sending, _ = listener.accept()
    sending.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 32 << 10)
    receiving.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
    for sock in (sending, receiving):
        sock.setblocking(False)
    return sending, receiving


async def sip(sock: socket.socket) -> None:
    """Some six megabytes a second: less than there is, and never nothing for long."""
    while await asyncio.get_running_loop().sock_recv(sock, 32 << 10):
        await asyncio.sleep(0.005)


def body(path: Path, size: int) -> Body:
    path.touch()
    os.truncate(path, size)
    return Body(b"frame", os.open(path, os.O_RDONLY), 0, size)


@on_loop
async def test_a_peer_that_takes_a_little_all_the_time_keeps_no_thread(tmp_path: Path) -> None:
    """Eight such used to hold all threads, and with them what others asked for."""
    sending, receiving = pair()
    pool = ThreadPoolExecutor(1)
    sipping = asyncio.ensure_future(sip(receiving))
    sender = BodySender(sending, pool, stall_s=10)
    slow = asyncio.ensure_future(sender.send_bodies(iter([body(tmp_path / "body", 1 << 30)])))
    try:
        await asyncio.sleep(0.1)  # it is under way
        for _ in range(5):
            began_s = time.monotonic()
            await asyncio.get_running_loop().run_in_executor(pool, lambda: None)
            assert time.monotonic() - began_s < 1.0
        assert not slow.done()
    finally:
        for task in (slow, sipping):
            task.cancel()
        await asyncio.gather(slow, sipping, return_exceptions=True)
        pool.shutdown()
        sending.close()
        receiving.close()


@on_loop
async def test_a_peer_that_takes_too_little_is_given_up_though_it_takes_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body_sender, "MIN_BYTES_PER_S", 1 << 40)
    sending, receiving = pair()
    sipping = asyncio.ensure_future(sip(receiving))
    with sending, receiving, ThreadPoolExecutor(1) as pool:
        sender = BodySender(sending, pool, stall_s=0.5)
        async with asyncio.timeout(5):
            with pytest.raises(errors.DeadlineError, match="takes less than"):
                await sender.send_bodies(iter([body(tmp_path / "body", 1 << 30)]))
        sipping.cancel()
        await asyncio.gather(sipping, return_exceptions=True)
