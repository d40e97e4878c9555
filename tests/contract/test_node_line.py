"""A mount's conversation with whatever listens where its node should be."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.support.digests import numbered_digest
from tfquiver import errors
from tfquiver.messages_and_binary_formats import reader_frames as frames

trio = pytest.importorskip("trio")
node_line = pytest.importorskip("tfquiver.mounting.node_line")


def test_who_does_not_greet_is_left_and_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that is stopped, or busy, lets the kernel accept for it."""
    monkeypatch.setattr(node_line, "_HELLO_S", 0.2)
    path = str(tmp_path / "node.sock")

    async def talk() -> None:
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        bound.bind(path)
        bound.listen(8)
        with trio.socket.from_stdlib_socket(bound) as listener:
            line = node_line.NodeLine(numbered_digest(3), "a mount", patience_s=20.0)
            line.found(path)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(line.run)
                silent, _ = await listener.accept()
                with silent:
                    while await silent.recv(frames.MAX_FRAME_BYTES):
                        pass  # until it has left
                nursery.start_soon(answer, listener)
                with pytest.raises(errors.NotFoundError, match="none of mine"):
                    await line.get(1)
                nursery.cancel_scope.cancel()

    async def answer(listener: trio.socket.SocketType) -> None:
        node, _ = await listener.accept()
        with node:
            assert isinstance(frames.decode(await node.recv(frames.MAX_FRAME_BYTES)), frames.Hello)
            await node.send(frames.encode(frames.Welcome("n1")))
            which = frames.decode(await node.recv(frames.MAX_FRAME_BYTES))
            assert isinstance(which, frames.Which), "so that it knows what is mounted"
            asked = frames.decode(await node.recv(frames.MAX_FRAME_BYTES))
            assert isinstance(asked, frames.Get)
            failed = errors.code_number(errors.UnavailableError(""))  # of what nobody waits for: it does no harm
            await node.send(frames.encode(frames.Failed(which.request, failed, "not now")))
            code = errors.code_number(errors.NotFoundError(""))
            await node.send(frames.encode(frames.Failed(asked.request, code, "none of mine")))
            await trio.sleep_forever()

    async def in_time() -> None:
        with trio.fail_after(30):
            await talk()

    trio.run(in_time)


def test_a_node_that_was_started_again_is_asked_when_it_has_been_told_of_stores(tmp_path: Path) -> None:
    path, told = str(tmp_path / "node.sock"), False

    async def talk() -> None:
        nonlocal told
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        bound.bind(path)
        bound.listen(8)
        with trio.socket.from_stdlib_socket(bound) as listener, trio.fail_after(30):
            line = node_line.NodeLine(numbered_digest(3), "a mount", 20.0, is_told=lambda where, sock: told)
            line.found(path)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(line.run)
                for is_told in (False, True):
                    told = is_told
                    node, _ = await listener.accept()
                    with node:
                        assert isinstance(frames.decode(await node.recv(frames.MAX_FRAME_BYTES)), frames.Hello)
                        await node.send(frames.encode(frames.Welcome("n1")))
                        said = await node.recv(frames.MAX_FRAME_BYTES)
                        assert bool(said) == is_told, "what is shown, or that it has left"
                nursery.cancel_scope.cancel()

    trio.run(talk)


def test_a_node_that_does_not_know_the_digest_yet_is_told_again_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have asked a coordinator that was away: nobody else would tell that the data set is mounted."""
    monkeypatch.setattr(node_line, "_LONGEST_PAUSE_S", 0.1)
    path, digest = str(tmp_path / "node.sock"), numbered_digest(3)

    async def talk() -> None:
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        bound.bind(path)
        bound.listen(8)
        with trio.socket.from_stdlib_socket(bound) as listener, trio.fail_after(30):
            line = node_line.NodeLine(digest, "a mount", patience_s=20.0)
            line.found(path)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(line.run)
                node, _ = await listener.accept()
                with node:
                    assert isinstance(frames.decode(await node.recv(frames.MAX_FRAME_BYTES)), frames.Hello)
                    await node.send(frames.encode(frames.Welcome("n1")))
                    for _ in range(3):
                        which = frames.decode(await node.recv(frames.MAX_FRAME_BYTES))
                        assert isinstance(which, frames.Which) and which.digest_id == digest.digest_id
                        code = errors.code_number(errors.UnavailableError(""))
                        await node.send(frames.encode(frames.Failed(which.request, code, "not now")))
                nursery.cancel_scope.cancel()

    trio.run(talk)
