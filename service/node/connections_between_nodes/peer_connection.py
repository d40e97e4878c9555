"""The asking end of one data port connection. Blocks; one thread at a time uses it."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import grpc

from tfquiver import errors
from tfquiver.grpc_plumbing import addresses
from tfquiver.plain_text import plain
from tfquiver.service.node.bodies_sent_between_nodes.peer_body import BodyIntake, DamagedBodyError, WrongBodyError
from tfquiver.service.node.connections_between_nodes import data_frames as frames
from tfquiver.service.node.connections_between_nodes import peer_proof
from tfquiver.service.node.connections_between_nodes.peer_socket import PeerSocket
from tfquiver.service.node.disk import entry
from tfquiver.service.node.sealed_memory_of_checked_shards.ready_shard import ReadyShard
from tfquiver.service.node.sealed_memory_of_checked_shards.sealed_memory import NoMemoryError
from tfquiver.service.node.shards_from_disk_other_nodes_or_store.reach import ANYWHERE

ITEM_S = 150.0  # a peer answers sooner than that, if only to say that a shard cannot be had
_CODES = {code.value[0]: code for code in grpc.StatusCode}


@dataclass(frozen=True, slots=True)
class Want:
    shard: int
    hash: bytes
    length_bytes: int
    suspect: bool = False  # check it even where the peer is trusted


Outcome = ReadyShard | errors.TfquiverError


class LyingPeerError(errors.UnavailableError):
    """It sent other bytes than those it was asked for."""


class OlderPeerError(errors.UnavailableError):
    """It does not know the frame that asks within a reach: ask it without one."""


class PeerConnection:
    """Raises UnavailableError naming the peer when it cannot be reached, does not answer, breaks the protocol or is
    another than was dialled; NoMemoryError when it is this process that is at its end.

    Args:
      peer: node id of the one that is dialled.
      trust: what a peer sends that proves to hold `token` is not checked here.
    """

    def __init__(self, peer: str, address: str, token: str, node_id: str, trust: bool = False) -> None:
        self._peer = f"node {plain(peer)} at {plain(address)}"
        self._request = 0
        try:
            self._socket = PeerSocket(*addresses.split(address))
        except (OSError, ValueError) as error:
            raise errors.UnavailableError(f"{self._peer}: {error}") from error
        self._intake = BodyIntake(self._socket.body, self._peer)
        try:
            with self._typed():
                nonce = os.urandom(peer_proof.NONCE_BYTES)
                self._send(frames.Hello(token, node_id, nonce))
                welcome = self._receive()
                if not isinstance(welcome, frames.Welcome):
                    raise errors.ProtocolError("it does not say WELCOME")
                if welcome.node_id != peer:
                    raise errors.UnavailableError(
                        f"there answers node {plain(welcome.node_id)}: see --advertise_host and --data_port of both"
                    )
                self._trusted = trust and peer_proof.is_proven(token, nonce, peer, welcome.proof)
        except BaseException:
            self._socket.close()
            raise

    def get(
        self,
        digest_id: bytes,
        wants: Sequence[Want],
        on_item: Callable[[Want, Outcome], None],
        reach: int = ANYWHERE,
    ) -> None:
        """Calls `on_item` once for each want, as they come. When this raises, the rest will not come. `reach`: how far
        the peer may go for them.

        Raises LyingPeerError, besides what is said above, behind the item that was another; OlderPeerError, where a
        `reach` was said that the peer does not know of, before any item.
        """
        with self._typed():
            self._request += 1
            open_wants = {want.shard: want for want in wants}
            if not open_wants:
                return
            asked = tuple((want.shard, want.hash) for want in open_wants.values())
            if reach == ANYWHERE:
                self._send(frames.Get(digest_id, self._request, asked))
            else:
                self._send(frames.GetWithin(digest_id, self._request, reach, asked))
            give_up_at = time.monotonic() + ITEM_S
            while open_wants:
                try:
                    item = self._receive()
                except errors.TfquiverError as error:
                    if reach != ANYWHERE and frames.is_unknown(error, frames.GetWithin):
                        raise OlderPeerError(str(error)) from error
                    raise
                if isinstance(item, frames.Working):
                    if time.monotonic() > give_up_at:
                        raise errors.DeadlineError(f"it has been working on a shard for {ITEM_S:g} s")
                    continue
                give_up_at = time.monotonic() + ITEM_S
                if not isinstance(item, frames.Item) or item.request != self._request or item.shard not in open_wants:
                    raise errors.ProtocolError(f"it sends {type(item).__name__} where an item was due")
                want = open_wants[item.shard]
                outcome = self._outcome(digest_id, want, item)
                del open_wants[item.shard]
                on_item(want, outcome)
                if isinstance(outcome, WrongBodyError):
                    raise LyingPeerError("it sent other bytes than those it was asked for")

    def put(self, header: entry.Header, stored: bytes) -> None:
        """Raises what the peer answers: ResourceExhaustedError, DataLossError and so on."""
        with self._typed():
            self._send(frames.Put(header))
            self._socket.send(stored)
            give_up_at = time.monotonic() + ITEM_S
            while isinstance(reply := self._receive(), frames.Working):
                if time.monotonic() > give_up_at:
                    raise errors.DeadlineError(f"it has been working on a PUT for {ITEM_S:g} s")
            if not isinstance(reply, frames.PutReply) or reply.hash != header.hash:
                raise errors.ProtocolError(f"it sends {type(reply).__name__} where the reply to a PUT was due")
        if reply.code:
            raise errors.from_code(_code(reply.code), f"{self._peer}: {plain(reply.message)}")

    def shut_down(self) -> None:
        """From any thread: whoever waits here is released."""
        self._socket.shut_down()

    def close(self) -> None:
        self._socket.close()

    def _outcome(self, digest_id: bytes, want: Want, item: frames.Item) -> Outcome:
        if item.body is None:
            return frames.trouble(item)(f"{self._peer}: {plain(item.message)}")
        if item.body.raw_length != want.length_bytes:
            raise errors.ProtocolError(f"shard {want.shard} of {item.body.raw_length} bytes, not {want.length_bytes}")
        try:
            ready = self._intake.receive(want.hash, item.body, self._trusted and not want.suspect)
            return replace(ready, peer_had_none=frames.has_left_the_store(item))
        except DamagedBodyError as error:
            self._send(frames.Bad(digest_id, want.shard, want.hash))
            return error
        except WrongBodyError as error:
            return error

    def _send(self, frame: frames.Frame) -> None:
        self._socket.send(frames.encode(frame))

    def _receive(self) -> frames.Frame:
        header = bytearray(frames.HEADER_BYTES)
        self._socket.fill(memoryview(header))
        cls, length = frames.decode_header(bytes(header))
        payload = bytearray(length)
        self._socket.fill(memoryview(payload))
        frame = frames.decode_payload(cls, payload)
        if isinstance(frame, frames.Error):
            raise errors.from_code(_code(frame.code), plain(frame.message))
        return frame

    @contextlib.contextmanager
    def _typed(self) -> Iterator[None]:
        try:
            yield
        except NoMemoryError:
            raise
        except (LyingPeerError, OlderPeerError) as error:
            raise type(error)(f"{self._peer}: {error}") from error
        except (OSError, EOFError, errors.TfquiverError) as error:
            raise errors.UnavailableError(f"{self._peer}: {error}") from error


def _code(number: int) -> grpc.StatusCode:
    return _CODES.get(number, grpc.StatusCode.UNKNOWN)
