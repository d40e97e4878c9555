"""Who calls this node: the coordinator knows whose a token is, and what it said is remembered for a while."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from absl import logging

from tfquiver import errors
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.roles_and_tokens.identity import Identity, Role, wrong_token
from tfquiver.roles_and_tokens.tokens import SharedToken, hash_of

_KNOWN_S = 60.0  # how much longer than at the coordinator a token may hold here
_UNKNOWN_S = 5.0
_ANSWER_S = 3.0  # less than a peer waits
_MOST_KEPT = 4096
_MOST_ASKED = 16  # at the same time: wrong tokens must not keep the coordinator busy
_ROLES = {pb.ROLE_ADMIN: Role.ADMIN, pb.ROLE_NODE: Role.NODE, pb.ROLE_JOB: Role.JOB}


class Callers:
    """An Authority (tfquiver/roles_and_tokens/identity.py). On one event loop.

    While the coordinator is away, whoever was known stays known.

    Args:
      own_token: what this node shows. Where the coordinator asks for no token, callers must show the same.
      ask: Identify at the coordinator; raises its typed errors.
      clock: seconds, monotonic.
    """

    def __init__(
        self,
        own_token: str,
        ask: Callable[[pb.IdentifyRequest, float], Awaitable[pb.IdentifyReply]],
        clock: Callable[[], float],
    ) -> None:
        self._own, self._ask, self._clock = SharedToken(own_token), ask, clock
        self._kept: OrderedDict[bytes, tuple[Identity | None, float]] = OrderedDict()
        self._under_way: dict[bytes, asyncio.Task[Identity | None]] = {}
        self._asking = asyncio.Semaphore(_MOST_ASKED)

    async def identify(self, token: str) -> Identity:
        if not token:
            raise wrong_token(token)
        hash = hash_of(token)
        identity, until_s = self._kept.get(hash, (None, 0.0))
        if until_s <= self._clock():
            identity = await self._asked(hash)
        if identity is None:
            raise wrong_token(token)
        return identity

    async def _asked(self, hash: bytes) -> Identity | None:
        task = self._under_way.get(hash)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._fetch(hash))
            self._under_way[hash] = task
            task.add_done_callback(lambda _: self._under_way.pop(hash))
        return await asyncio.shield(task)

    async def _fetch(self, hash: bytes) -> Identity | None:
        identity: Identity | None = None
        try:
            async with self._asking:
                reply = await self._ask(pb.IdentifyRequest(token_sha256=hash), _ANSWER_S)
            if reply.open:
                identity = self._own.by_hash(hash)
            elif role := _ROLES.get(reply.role):
                identity = Identity(role, reply.name)
        except errors.NotFoundError:
            identity = None
        except (errors.UnavailableError, errors.DeadlineError) as error:
            identity, _ = self._kept.get(hash, (None, 0.0))
            if identity is None:
                raise errors.UnavailableError(f"who calls cannot be told now: {error}") from error
            every_n_seconds(logging.WARNING, "callers: %s; those known before stay known", 60, error)
        self._kept[hash] = identity, self._clock() + (_KNOWN_S if identity else _UNKNOWN_S)
        self._kept.move_to_end(hash)
        if len(self._kept) > _MOST_KEPT:  # wrong tokens cost nothing to make: they drive out one another first
            wrong = (kept for kept, (found, _) in self._kept.items() if found is None)
            del self._kept[next(wrong, next(iter(self._kept)))]
        return identity
