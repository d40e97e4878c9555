"""Replies that many nodes are given: bytes are made of each once."""

from __future__ import annotations

from google.protobuf.message import Message


class SharedReplies:
    """Whoever gives a reply to several must not change it: what it was the first time is what all are sent."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[Message, bytes]] = {}  # by kind of call

    def bytes_of(self, kind: str, reply: Message) -> bytes:
        last = self._last.get(kind)
        if last is None or last[0] is not reply:
            last = self._last[kind] = reply, reply.SerializeToString()
        return last[1]
