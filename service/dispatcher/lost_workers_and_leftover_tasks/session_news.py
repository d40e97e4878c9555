"""What the coordinator knows of sessions whose tasks the reaper would finish."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import grpc

from tfquiver.grpc_plumbing import pages, rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, coordinator_pb2_grpc

_CALL_S = 2.0
_MAX_SESSIONS = 20_000
_MAX_SESSIONS_A_KEY = 1000  # epochs of the last hour
_MAX_KEYS = 100  # of more it is cheaper to list all sessions: a graph may hold many words that look like a key


@dataclass(frozen=True, slots=True)
class UnreadKeys:
    """Of sessions in which readers were told END although not all has been read or delivered."""

    left_early: frozenset[str] = frozenset()  # by readers; others still read
    short: frozenset[str] = frozenset()  # readers were lost after the end: nobody reads it unless somebody comes


class SessionNews(Protocol):
    """All methods raise grpc.RpcError."""

    def unread(self) -> UnreadKeys: ...

    def quiet(self, keys: Collection[str], seconds: float) -> bool:
        """Whether `all_quiet` is what the sessions of these keys are."""

    def starving(self, clients: Mapping[str, int], seconds: float) -> bool:
        """Whether that is what they are, and so many iterators, by key, wait for an element of this dispatcher's
        workers just now. Keys of no session do not count."""


def all_quiet(sessions: Iterable[coordinator_pb2.SessionInfo], seconds: float) -> bool:
    """They have no readers, nobody has asked for one of them, or left it, for so long, and one of them has ended. (Of
    the others trainers have had enough; but not of one that readers were told to leave before its end.)"""
    ended = False
    for session in sessions:
        left_early = session.left_early > 0 and not session.ended
        if session.readers or left_early or session.idle_ms < 1000 * seconds:
            return False
        ended |= session.ended
    return ended


class CoordinatorNews:
    def __init__(self, coordinator: str, token: str, port: int) -> None:
        """`port`: of the dispatcher."""
        self._port = port
        self._channel = rpc.channel(coordinator)
        self._stub = coordinator_pb2_grpc.CoordinatorStub(self._channel)
        self._metadata = tuple(rpc.metadata(token))
        self._token, self._sees_all = token, False

    def check_token(self) -> None:
        """Of what the token does not show, nothing would be known. Who does not answer now is asked again by the calls.

        Raises PermissionError_, UnauthenticatedError.
        """
        try:
            self._identify()
        except grpc.RpcError as error:
            if error.code() in (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED):
                raise rpc.from_rpc_error(error, "--auth_token_file: the coordinator says") from error

    def unread(self) -> UnreadKeys:
        keyed = [session for session in self._list(unread_only=True, limit=_MAX_SESSIONS) if session.session_key]
        return UnreadKeys(
            frozenset(session.session_key for session in keyed if not session.ended),
            frozenset(session.session_key for session in keyed if session.ended),
        )

    def quiet(self, keys: Collection[str], seconds: float) -> bool:
        if len(keys) <= _MAX_KEYS:
            listed = (self._list(session_key=key, limit=_MAX_SESSIONS_A_KEY) for key in keys)
            return all_quiet(itertools.chain.from_iterable(listed), seconds)
        everybodys = self._list(limit=_MAX_SESSIONS)
        return all_quiet((session for session in everybodys if session.session_key in keys), seconds)

    def starving(self, clients: Mapping[str, int], seconds: float) -> bool:
        if len(clients) > _MAX_KEYS:
            return False
        listed = {key: self._list(session_key=key, limit=_MAX_SESSIONS_A_KEY) for key in clients}
        all_wait = all(
            0 < clients[key] <= found[0].waiting_iterators.get(self._port, 0) for key, found in listed.items() if found
        )
        return all_wait and all_quiet(itertools.chain.from_iterable(listed.values()), seconds)

    def close(self) -> None:
        self._channel.close()

    def _list(
        self, unread_only: bool = False, session_key: str = "", limit: int = 0
    ) -> list[coordinator_pb2.SessionInfo]:
        if not self._sees_all:
            self._identify()
        request = coordinator_pb2.ListSessionsRequest(unread_only=unread_only, session_key=session_key, limit=limit)
        return pages.sessions(
            lambda page: self._stub.ListSessions(page, metadata=self._metadata, timeout=_CALL_S), request
        )

    def _identify(self) -> None:
        """For nodes and admins, who see everybody's sessions; a job's token would be shown its own only."""
        request = coordinator_pb2.IdentifyRequest(token_sha256=hashlib.sha256(self._token.encode()).digest())
        self._stub.Identify(request, metadata=self._metadata, timeout=_CALL_S)
        self._sees_all = True
