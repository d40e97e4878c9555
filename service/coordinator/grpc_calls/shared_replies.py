"""Replies that many nodes are given: bytes are made of each once."""

from __future__ import annotations

from google.protobuf.message import Message

_LEAST_BYTES = 1024  # of one that is kept: smaller ones, most of them for one node, come between those for all


class SharedReplies:
    """Whoever gives a reply to several must not change it: what it was the first time is what all are sent."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[Message, bytes]] = {}  # by kind of call

    def bytes_of(self, kind: str, reply: Message) -> bytes:
        last = self._last.get(kind)
        if last is not None and last[0] is reply:
            return last[1]
        body = reply.SerializeToString()
        if len(body) >= _LEAST_BYTES:
            self._last[kind] = reply, body
        return body
