"""Rotation by need: many small chunks, all the room there is, no fixed order. Pure.

After Zukowski, Héman, Nes and Boncz, Cooperative Scans (VLDB 2007): what is loaded next is what the most sessions
still need among that which some session will soon run dry without; what goes is what the fewest need and nobody is
reading; a session reads first, of what is resident, what the fewest others need.

Loading late and evicting late both save bytes: what is not loaded yet may still be chosen with more knowledge, and what
is not evicted yet serves the session that comes to it later.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tfquiver.service.coordinator.chunk_rotation.board import Board
from tfquiver.service.coordinator.chunk_rotation.dry import Dry
from tfquiver.service.coordinator.chunk_rotation.interface import Decision
from tfquiver.service.coordinator.chunk_rotation.room import Room
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.chunk_use import Menu

# A step of the rotation takes as long as orders and reports are on their way, and a chunk as long as it loads: sessions
# whose next chunk is ordered only when they have nothing left would stand still meanwhile.
LEAD_CHUNKS = 2.0
EVICT_LEAD_CHUNKS = 1.0
LOADING_AT_ONCE = 2
_SOME = 32


class Relevance:
    """Sizes of the chunks that stay, and bytes still resident of others, never exceed the allocation together; but for
    what was there before."""

    def __init__(
        self,
        board: Board,
        timeout_s: float,
        now: float = 0.0,
        lead_chunks: float = LEAD_CHUNKS,
        evict_lead_chunks: float = EVICT_LEAD_CHUNKS,
        loading_at_once: int = LOADING_AT_ONCE,
    ) -> None:
        """Takes over what is resident.

        Args:
          timeout_s: how long a session that waits, or reads on, is put before, or after, all others.
          lead_chunks: a session that has less left to read than this is about to run dry: something is loaded for it.
          evict_lead_chunks: with less than this, also in place of what others still need.
          loading_at_once: chunks that are loaded at a time.

        Raises: InvalidArgumentError when the allocation has no room for two chunks.
        """
        self._board, self._room, self._timeout_s = board, Room(board, timeout_s), timeout_s
        chunk_bytes = sum(board.sizes) / len(board.sizes)
        self._lead_bytes, self._evict_lead_bytes = lead_chunks * chunk_bytes, evict_lead_chunks * chunk_bytes
        self._loading_at_once = loading_at_once
        self._sessions_dry = Dry(timeout_s)
        self._of_stays, self._of_there = board.follow(), board.follow()
        self._there, self._there_when = frozenset[int](), (-1, -1)  # which stay and are there, at these versions
        self._room.adopt(len(board.sizes), now)
        self._room.spare(now)

    @property
    def version(self) -> int:
        return self._room.changes + self._board.version

    def keeps(self, chunk: int) -> bool:
        return chunk in self._room.stays

    def decide(self, now: float) -> Decision:
        board, room = self._board, self._room
        room.note(now)
        self._shrink()
        dry = self._dry()
        names = {board.names[row] for row in dry.tolist()}
        room.changes += self._sessions_dry.note(names, now, int(board.columns.resident.sum()), bool(room.leaving))
        while room.loading() < self._loading_at_once and self._load_another(now):
            pass
        load = room.lacking() if board.sessions else []
        lacking = np.array(load, np.intp)
        urgent = frozenset(lacking[board.pending[np.ix_(dry, lacking)].any(axis=0)].tolist())
        load.sort(key=lambda chunk: chunk not in urgent)
        return Decision(tuple(load), urgent, room.leaving)

    def menu(self, session: str) -> Menu:
        board, columns, using = self._board, self._board.columns, self._board.sessions[session].using
        pending = board.pending[board.row(session)] > 0
        stays = self._stays
        hits, unused = stays[pending[stays]], np.ones_like(pending)
        unused[list(using)] = False
        hits = hits[np.lexsort((columns.wanted[hits], unused[hits]))]
        misses = hits[columns.resident[hits] != columns.sizes[hits]]
        past_the_cache = self._sessions_dry.past_the_cache(session)
        direct = np.flatnonzero(pending if past_the_cache else pending & self._remnants())
        return Menu(tuple(hits.tolist()), tuple(misses.tolist()), tuple(direct.tolist()))

    def _shrink(self) -> None:
        """Nodes have gone, and room with them. What is in part elsewhere, or here no longer, goes first."""
        board, room = self._board, self._room
        while room.excess_bytes > 0:
            unread = [chunk for chunk in room.stays if not board.readers[chunk]]
            if not unread:
                return
            room.dismiss(min(unread, key=lambda chunk: (board.complete(chunk), board.wanted[chunk])))

    def _load_another(self, now: float) -> bool:
        """False when nothing is to be loaded now."""
        board, room = self._board, self._room
        starved = np.flatnonzero(self._have_less_than(self._lead_bytes))
        chunk = self._overdue(now)
        if chunk is None:
            chunk = self._most_wanted(starved if len(starved) else None)
        if chunk is None:
            return False
        size_bytes, free_bytes = board.sizes[chunk], room.free_bytes
        if size_bytes <= free_bytes:
            room.admit(chunk, now)
            return True
        if size_bytes <= free_bytes + room.leaving_bytes or not len(starved):
            return False
        victim = self._least_wanted(now)
        if victim is None:
            return False
        room.dismiss(victim)
        return True

    def _overdue(self, now: float) -> int | None:
        """What the session needs that has been waiting for too long, if there is one."""
        sessions = self._sessions_dry.for_s(self._timeout_s, now)
        board = self._board
        wanted = (self._most_wanted(np.array([board.row(session)])) for session in sessions)
        return next((chunk for chunk in wanted if chunk is not None), None)

    def _most_wanted(self, rows: npt.NDArray[np.intp] | None) -> int | None:
        """Of what these rows of the board's need (None: all), and what is neither here nor too little to be loaded."""
        counts = self._board.columns.wanted
        chunks = np.flatnonzero((counts > 0) & ~self._room.kept.or_spared & ~self._remnants())
        if rows is None:
            return int(chunks[counts[chunks].argmax()]) if len(chunks) else None
        chunks = chunks[np.argsort(-counts[chunks], kind="stable")]
        for at in range(0, len(chunks), _SOME):  # mostly one of the first
            some = chunks[at : at + _SOME]
            needed = np.flatnonzero(self._board.pending[np.ix_(rows, some)].any(axis=0))
            if len(needed):
                return int(some[needed[0]])
        return None

    def _least_wanted(self, now: float) -> int | None:
        """What some session still needs goes only for one that has next to nothing left to read."""
        wanted = self._board.wanted
        chunks = (chunk for chunk in self._room.stays if self._may_go(chunk, now))
        chunk = min(chunks, key=lambda chunk: wanted[chunk], default=None)
        if chunk is None or not wanted[chunk]:
            return chunk
        return chunk if self._have_less_than(self._evict_lead_bytes).any() else None

    def _may_go(self, chunk: int, now: float) -> bool:
        """Nobody reads it, and what it was loaded for has been done; or either takes too long."""
        stay = self._room.stays[chunk]
        done = stay.finished or not self._board.wanted[chunk]
        return stay.settled and ((done and not self._board.readers[chunk]) or stay.overdue(now))

    def _have_less_than(self, lead_bytes: float) -> npt.NDArray[np.bool_]:
        """Which of the board's rows have less left to read than this: shape [sessions]."""
        board = self._board
        left = self._of_stays.of(self._room.kept.as_set, len(board.names))
        less: npt.NDArray[np.bool_] = left < np.minimum(lead_bytes, board.pending_bytes)
        return less

    def _dry(self) -> npt.NDArray[np.intp]:
        """The board's rows of sessions that need something, and have nothing to read."""
        board = self._board
        when = self._room.changes, board.there_version
        if self._there_when != when:
            stays = self._stays
            self._there, self._there_when = frozenset(stays[board.columns.resident[stays] != 0].tolist()), when
        return np.flatnonzero((board.pending_bytes > 0) & (self._of_there.of(self._there, len(board.names)) == 0))

    @property
    def _stays(self) -> npt.NDArray[np.int64]:
        """Oldest first."""
        return self._room.kept.stays

    def _remnants(self) -> npt.NDArray[np.bool_]:
        """Of which so little is needed that reading just that costs less than loading the chunk: shape [chunks]."""
        columns = self._board.columns
        remnants: npt.NDArray[np.bool_] = 2 * columns.needed_bytes <= columns.sizes
        remnants[self._stays] = False
        return remnants
