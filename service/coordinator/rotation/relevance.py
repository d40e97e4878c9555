"""Rotation by need: many small chunks, all the room there is, no fixed order. Pure.

After Zukowski, Héman, Nes and Boncz, Cooperative Scans (VLDB 2007): what is loaded next is what the most sessions
still need among that which some session will soon run dry without; what goes is what the fewest need and nobody is
reading; a session reads first, of what is resident, what the fewest others need.

A session counts for the more the fewer chunks it still needs: one that needs thirty finds most of them coming by on
behalf of others, one that needs two does not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tfquiver import errors
from tfquiver.service.coordinator.rotation.board import Board, Needs
from tfquiver.service.coordinator.rotation.interface import Decision, Menu

LEAD_CHUNKS = 2.0
STARVED_WEIGHT = 8.0


@dataclass(slots=True)
class _Stay:
    """One chunk's time in the cache."""

    finishes: int  # of the board, when it was admitted
    complete_at: float | None = None
    first_finish: float | None = None


class Relevance:
    """Sizes of the chunks admitted, and bytes still resident of others, never exceed the allocation together."""

    def __init__(
        self, board: Board, timeout_s: float, lead_chunks: float = LEAD_CHUNKS, loading_at_once: int = 1
    ) -> None:
        """Takes over what is resident.

        Args:
          lead_chunks: a session that has less left to read than this is about to run dry.
          loading_at_once: chunks that are loaded at a time.

        Raises: InvalidArgumentError when the allocation has no room for two chunks.
        """
        two_bytes = sum(sorted(board.sizes)[-2:])
        if two_bytes > board.allocation_bytes:
            raise errors.InvalidArgumentError(
                f"allocation: {board.allocation_bytes} bytes have no room for two chunks of {two_bytes} bytes together"
            )
        self._board, self._timeout_s = board, timeout_s
        self._lead_bytes = lead_chunks * sum(board.sizes) / len(board.sizes)
        self._loading_at_once = loading_at_once
        self._stays: dict[int, _Stay] = {}
        self._changes = 0
        self._worth_here: dict[int, float] = {}
        self._worth_version = -1
        self._adopt()

    @property
    def version(self) -> int:
        return self._changes + self._board.version

    def keeps(self, chunk: int) -> bool:
        return chunk in self._stays

    def decide(self, now: float) -> Decision:
        self._note(now)
        self._make_room(now)
        board = self._board
        load = [chunk for chunk in self._stays if not board.complete(chunk)] if board.sessions else []
        dry = [needs for needs in board.sessions.values() if not self._has_hits(needs)]
        urgent = frozenset(chunk for chunk in load if any(needs.pending[chunk] for needs in dry))
        load.sort(key=lambda chunk: chunk not in urgent)
        return Decision(tuple(load), urgent, self._leaving())

    def menu(self, session: str) -> Menu:
        board, needs = self._board, self._board.sessions[session]
        hits = [chunk for chunk in self._stays if needs.pending[chunk]]
        if self._worth_version != self.version:
            self._worth_here, self._worth_version = self._worth(self._stays), self.version
        hits.sort(key=lambda chunk: (chunk not in needs.using, self._worth_here[chunk]))
        misses = [chunk for chunk in hits if not board.complete(chunk)]
        direct = [chunk for chunk in range(len(board.sizes)) if needs.pending[chunk] and self._is_remnant(chunk)]
        return Menu(tuple(hits), tuple(misses), tuple(direct))

    # What is there.

    def _adopt(self) -> None:
        """The chunks of which most is there, as far as there is room; what is there of others goes."""
        board = self._board
        there = [chunk for chunk, resident in enumerate(board.resident) if resident]
        there.sort(key=lambda chunk: board.resident[chunk] / board.sizes[chunk], reverse=True)
        room = board.allocation_bytes - sum(board.resident)
        for chunk in there:
            if board.sizes[chunk] - board.resident[chunk] <= room:
                room -= board.sizes[chunk] - board.resident[chunk]
                self._stays[chunk] = _Stay(board.finishes[chunk])

    def _leaving(self) -> tuple[int, ...]:
        return tuple(c for c, resident in enumerate(self._board.resident) if resident and c not in self._stays)

    def _note(self, now: float) -> None:
        for chunk, stay in self._stays.items():
            if stay.complete_at is None and self._board.complete(chunk):
                stay.complete_at = now
            if stay.first_finish is None and self._board.finishes[chunk] > stay.finishes:
                stay.first_finish = now

    # What is to be there.

    def _make_room(self, now: float) -> None:
        board = self._board
        while sum(not board.complete(chunk) for chunk in self._stays) < self._loading_at_once:
            starved = [needs for needs in board.sessions.values() if self._is_starved(needs)]
            leaving_bytes = sum(board.resident[chunk] for chunk in self._leaving())
            free_bytes = board.allocation_bytes - sum(board.sizes[chunk] for chunk in self._stays) - leaving_bytes
            wanted = self._best(starved or board.sessions.values(), starved)
            if wanted is None:
                return
            size_bytes = board.sizes[wanted]
            if size_bytes <= free_bytes:
                self._stays[wanted] = _Stay(board.finishes[wanted])
                self._changes += 1
                continue
            if size_bytes <= free_bytes + leaving_bytes or not starved:
                return
            victim = self._victim(now, starved)
            if victim is None:
                return
            board.cut_off(victim)
            del self._stays[victim]
            self._changes += 1

    def _best(self, sessions: Iterable[Needs], starved: list[Needs]) -> int | None:
        chunks = {c for needs in sessions for c, size in enumerate(needs.pending) if size and c not in self._stays}
        chunks = {chunk for chunk in chunks if not self._is_remnant(chunk)}
        if not chunks:
            return None
        worth = self._worth(chunks, starved)
        return max(sorted(chunks), key=lambda chunk: worth[chunk])

    def _victim(self, now: float, starved: list[Needs]) -> int | None:
        chunks = [chunk for chunk in self._stays if self._may_go(chunk, now)]
        if not chunks:
            return None
        worth = self._worth(chunks, starved)
        return min(chunks, key=lambda chunk: worth[chunk])

    def _may_go(self, chunk: int, now: float) -> bool:
        """Nobody reads it, and what it was loaded for has been done; or either takes too long."""
        stay = self._stays[chunk]
        if stay.complete_at is None:
            return False
        over = now >= (stay.complete_at if stay.first_finish is None else stay.first_finish) + self._timeout_s
        done = stay.first_finish is not None or not self._board.wanted[chunk]
        return over or (done and not self._board.readers[chunk])

    # How much it is worth.

    def _worth(self, chunks: Iterable[int], starved: Iterable[Needs] = ()) -> dict[int, float]:
        worth = dict.fromkeys(chunks, 0.0)
        hungry = set(map(id, starved))
        for needs in self._board.sessions.values():
            weight = (1.0 + 4.0 / max(1, needs.chunks)) * (STARVED_WEIGHT if id(needs) in hungry else 1.0)
            for chunk in worth:
                if needs.pending[chunk]:
                    worth[chunk] += weight
        return worth

    def _is_starved(self, needs: Needs) -> bool:
        here = sum(needs.pending[chunk] for chunk in self._stays)
        return here < min(self._lead_bytes, needs.pending_bytes)

    def _has_hits(self, needs: Needs) -> bool:
        return any(needs.pending[chunk] and self._board.resident[chunk] for chunk in self._stays)

    def _is_remnant(self, chunk: int) -> bool:
        """So little of it is needed that reading just that costs less than loading the chunk."""
        if chunk in self._stays:
            return False
        return 2 * self._board.needed_bytes[chunk] <= self._board.sizes[chunk]
