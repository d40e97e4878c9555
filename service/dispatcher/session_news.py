"""What the coordinator knows of sessions whose tasks the reaper would finish."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from tfquiver.proto.tfquiver.v1 import coordinator_pb2, coordinator_pb2_grpc
from tfquiver.wire import rpc

_CALL_S = 2.0
_MAX_SESSIONS = 20_000
_MAX_SESSIONS_A_KEY = 1000  # epochs of the last hour
_MAX_KEYS = 100  # of one pipeline


@dataclass(frozen=True, slots=True)
class UnreadKeys:
    """Of sessions in which readers were told END although not all has been read or delivered."""

    left_early: frozenset[str] = frozenset()  # by readers; others still read
    short: frozenset[str] = frozenset()  # readers were lost after the end: nobody reads it unless somebody comes


class SessionNews(Protocol):
    """Both methods raise grpc.RpcError."""

    def unread(self) -> UnreadKeys: ...

    def quiet(self, keys: Collection[str], seconds: float) -> bool:
        """Whether the sessions of these keys have no readers, nobody has asked for one of them, or left it, for so
        long, and one of them has ended. (Of the others trainers have had enough.)"""


class CoordinatorNews:
    def __init__(self, coordinator: str, token: str) -> None:
        self._channel = rpc.channel(coordinator)
        self._stub = coordinator_pb2_grpc.CoordinatorStub(self._channel)
        self._metadata = tuple(rpc.metadata(token))

    def unread(self) -> UnreadKeys:
        keyed = [session for session in self._list(unread_only=True, limit=_MAX_SESSIONS) if session.session_key]
        return UnreadKeys(
            frozenset(session.session_key for session in keyed if not session.ended),
            frozenset(session.session_key for session in keyed if session.ended),
        )

    def quiet(self, keys: Collection[str], seconds: float) -> bool:
        found = False
        for key in keys if len(keys) <= _MAX_KEYS else ():
            for session in self._list(session_key=key, limit=_MAX_SESSIONS_A_KEY):
                if session.readers or session.idle_ms < 1000 * seconds:
                    return False
                found |= session.ended
        return found

    def close(self) -> None:
        self._channel.close()

    def _list(
        self, unread_only: bool = False, session_key: str = "", limit: int = 0
    ) -> list[coordinator_pb2.SessionInfo]:
        request = coordinator_pb2.ListSessionsRequest(unread_only=unread_only, session_key=session_key, limit=limit)
        return list(self._stub.ListSessions(request, metadata=self._metadata, timeout=_CALL_S).sessions)
