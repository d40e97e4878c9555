"""The call that tells of sessions, and of what their jobs have measured."""

from __future__ import annotations

import asyncio
import bisect
from typing import Any

from tfquiver import errors
from tfquiver.grpc_plumbing.rpc import caller, handled
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb2
from tfquiver.service.coordinator.grpc_calls import checks
from tfquiver.service.coordinator.grpc_calls.callers import Callers
from tfquiver.service.coordinator.probing.ideal import could_read, is_guess
from tfquiver.service.coordinator.sessions.progress import read_shards
from tfquiver.service.coordinator.sessions.session import Session
from tfquiver.service.coordinator.sessions.sessions import Sessions

DEFAULT_LIST_LIMIT = 1000
MOST_PAGE_BYTES = 1 << 20
MOST_TOLD = 2**32 - 1
_MOST = 2**63
_AT_A_TIME = 32  # sessions: of all that there may be it takes half a second, and others want to be served


class ListingCalls(Callers):
    @handled
    async def ListSessions(self, request: pb2.ListSessionsRequest, context: Any) -> pb2.ListSessionsReply:
        checks.between("within_ms", request.within_ms, 0, 2**53)
        reply, who, ownership = pb2.ListSessionsReply(), caller(), self._coordinator.ownership
        sessions, size_bytes = self._coordinator.sessions, 0
        known = sessions.of_key(request.session_key) if request.session_key else list(sessions)
        if request.page:
            del known[bisect.bisect_left(known, request.page, key=_number) :]
        for at, session in enumerate(reversed(known), 1):
            if at % _AT_A_TIME == 0:
                await asyncio.sleep(0)
            if (
                (not request.label or request.label in session.labels)
                and not (request.open_only and session.ended)
                and (not request.unread_only or _unread(session, sessions))
                and (not request.within_ms or _used_within(session, sessions, request.within_ms / 1000))
                and (not self._named or ownership.has_claimed(who, session.session_key))
            ):
                if request.count_only:
                    reply.count += 1
                else:
                    reply.sessions.append(self._info(session))
                    size_bytes += reply.sessions[-1].ByteSize()
                full = request.page_bytes and size_bytes >= min(request.page_bytes, MOST_PAGE_BYTES)
                if full or len(reply.sessions) + reply.count >= (request.limit or DEFAULT_LIST_LIMIT):
                    reply.next_page = session.number
                    break
        return reply

    def _info(self, session: Session) -> pb2.SessionInfo:
        coordinator = self._coordinator
        info = pb2.SessionInfo(
            session_id=session.session_id,
            session_key=session.session_key,
            digest_id=session.digest_id,
            job=session.job,
            epoch=session.epoch,
            shards=session.shards,
            acked=session.acked_shards,
            leased=session.leased_shards,
            readers=len(session.readers),
            ended=session.ended,
            shortfall=session.shortfall,
            reread=session.counters.reread,
            resident_leases=session.counters.resident_leases,
            missing_leases=session.counters.missing_leases,
            left_early=session.counters.left_early,
            taken_over=session.taken_over,
            sampling=session.drawn.scheme,
            idle_ms=int(1000 * coordinator.sessions.idle_s(session)),
            probed=session.reads in coordinator.probed,
            waiting_iterators=coordinator.waiting_trainers.of(session.session_key),
        )
        if session.digest_id in coordinator.residency:
            info.disk_bytes = coordinator.residency.table(session.digest_id).disk_bytes
        info.read = self._read(session)
        self._add_measured(info, session)
        return info

    def _read(self, session: Session) -> int:
        coordinator = self._coordinator
        try:
            size_bytes = coordinator.registry.find(session.digest_id).size_bytes
        except errors.NotFoundError:  # removed meanwhile
            return session.acked_shards
        meters, reads = coordinator.meters, session.reads
        return read_shards(session, size_bytes, lambda reader_id: meters.delivered_bytes(reads, reader_id))

    def _add_measured(self, info: pb2.SessionInfo, session: Session) -> None:
        coordinator, meters = self._coordinator, self._coordinator.meters
        if (totals := meters.totals(session.reads)) is not None:
            info.read_bytes, info.hit_bytes, info.missed_bytes = (
                min(one, _MOST) for one in (totals.size_bytes, totals.hit_bytes, totals.missed_bytes)
            )
        if not session.readers:
            return
        info.window_bytes = min(sum(reader.window_bytes for reader in session.readers.values()), _MOST)
        steps = coordinator.step_meters.of(session.reads)
        if steps is not None:
            info.accelerators = min(steps.accelerators, MOST_TOLD)
            if steps.step_s is not None:
                info.step_ms = 1000 * steps.step_s
            if steps.between_s is not None:
                info.between_ms = 1000 * steps.between_s
        measured = meters.measured(session)
        if measured is None:
            return
        info.bytes_per_s, info.stall_share = int(measured.bytes_per_s), measured.stall_share
        if measured.hit_share is not None:
            info.hit_share = measured.hit_share
        probed = coordinator.probes.result(*session.reads)
        if could := could_read(measured, probed, steps):
            info.ideal_bytes_per_s, info.ideal_guessed = int(min(could, _MOST)), is_guess(measured, probed, steps)


def _number(session: Session) -> int:
    return session.number


def _unread(session: Session, sessions: Sessions) -> bool:
    return session.left_early or (session.left_short and sessions.is_newest(session))


def _used_within(session: Session, sessions: Sessions, seconds: float) -> bool:
    return bool(session.readers) or sessions.idle_s(session) <= seconds
