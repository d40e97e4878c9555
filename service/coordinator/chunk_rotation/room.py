"""Which chunks have been given room, and what is still there of those that have lost it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tfquiver import errors
from tfquiver.service.coordinator.chunk_rotation.board import Board
from tfquiver.service.coordinator.chunk_rotation.stay import Stay
from tfquiver.sizes_durations_amounts.amounts import apart


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """Of the chunks that are given room: not to be changed."""

    stays: npt.NDArray[np.int64]  # oldest first
    as_set: frozenset[int]  # the same
    or_spared: npt.NDArray[np.bool_]  # shape [chunks]: those that stay, and spared ones


class Room:
    """Invariant: the sizes of the chunks that stay, and what is resident of others, are at most the allocation; but
    for what was there before."""

    def __init__(self, board: Board, timeout_s: float) -> None:
        """Raises InvalidArgumentError when the allocation has no room for two chunks."""
        check_room(board.sizes, board.allocation_bytes)
        self.board, self._timeout_s = board, timeout_s
        self.stays: dict[int, Stay] = {}  # oldest first
        self._open: dict[int, Stay] = {}  # of these, those that are not settled, or of which something is to come
        self._unfinished: dict[int, int] = {}  # of the others, those that no session has finished; `finishes` then
        self._stay_bytes = 0  # their sizes
        self.spared: list[int] = []  # they stay when there is room for what they lack; most complete first
        self._spared_until = 0.0
        self.changes = 0
        self._kept: Kept | None = None  # until `stays` or `spared` are others
        self._noted_finishes = 0

    @property
    def kept(self) -> Kept:
        if self._kept is None:
            or_spared = np.zeros(len(self.board.sizes), np.bool_)
            or_spared[[*self.stays, *self.spared]] = True
            stays = np.fromiter(self.stays, np.int64, len(self.stays))
            self._kept = Kept(stays, frozenset(self.stays), or_spared)
        return self._kept

    def adopt(self, most: int, now: float) -> None:
        """Takes over what is resident: at most so many chunks, those of which most is there, as far as they fit."""
        board = self.board
        room_bytes = board.allocation_bytes - sum(board.resident)
        for chunk in self._there()[:most]:
            lacking_bytes = self._lacking_bytes(chunk)
            if lacking_bytes <= room_bytes:
                room_bytes -= lacking_bytes
                self.admit(chunk, now)

    def spare(self, now: float) -> None:
        """After `adopt`: of a data set of which some of each chunk is there, as it is when nobody rotated it before,
        what fits the allocation once the rest has gone is not evicted. Those chunks stay as the rest goes."""
        sizes = self.board.sizes
        room_bytes = self.board.allocation_bytes - sum(sizes[chunk] for chunk in self.stays)
        for chunk in self._there():
            if chunk not in self.stays and sizes[chunk] <= room_bytes:
                room_bytes -= sizes[chunk]
                self.spared.append(chunk)
        self._kept = None
        self._spared_until = now + self._timeout_s

    def note(self, now: float) -> None:
        for chunk, stay in list(self._open.items()):
            stay.note(now)
            if stay.settled and self.board.complete(chunk):  # one finish is all that may be noted of it
                del self._open[chunk]
                if not stay.finished:
                    self._unfinished[chunk] = self.board.finishes[chunk]
        finishes = self.board.finishes
        if self._noted_finishes != self.board.all_finishes:
            self._noted_finishes = self.board.all_finishes
            for chunk in [chunk for chunk, before in self._unfinished.items() if finishes[chunk] > before]:
                self.stays[chunk].note(now)
                del self._unfinished[chunk]
        if self.spared:
            self._settle(now)

    def _settle(self, now: float) -> None:
        """Spared ones for which there is room now stay, and complete ones, which take none: they can be read while the
        rest goes. Those for which there is no room after all are evicted."""
        before = len(self.spared)
        too_many_bytes = -(self.free_bytes + self.leaving_bytes)
        while self.spared and too_many_bytes > 0:
            too_many_bytes -= self.board.sizes[self.spared.pop()]
        self._kept = None
        spared_bytes = sum(self.board.resident[chunk] for chunk in self.spared)
        room_bytes = self.board.allocation_bytes - self._stay_bytes - self.leaving_bytes - spared_bytes
        waiting = []
        for chunk in self.spared:
            lacking_bytes = self._lacking_bytes(chunk)
            if lacking_bytes <= max(room_bytes, 0):
                room_bytes -= lacking_bytes
                self.admit(chunk, now)
            else:
                waiting.append(chunk)
        self.spared = waiting if now < self._spared_until else []
        self._kept = None
        self.changes += before - len(self.spared)

    def admit(self, chunk: int, now: float) -> None:
        self.stays[chunk] = self._open[chunk] = Stay(self.board, chunk, now, self._timeout_s)
        self._stay_bytes += self.board.sizes[chunk]
        self.changes += 1
        self._kept = None

    def dismiss(self, chunk: int) -> None:
        self.board.cut_off(chunk)
        del self.stays[chunk]
        self._open.pop(chunk, None)
        self._unfinished.pop(chunk, None)
        self._stay_bytes -= self.board.sizes[chunk]
        self.changes += 1
        self._kept = None

    @property
    def leaving(self) -> tuple[int, ...]:
        """What is to be evicted."""
        return tuple(np.flatnonzero(self._leaving).tolist())

    @property
    def leaving_bytes(self) -> int:
        return int(self.board.columns.resident[self._leaving].sum())

    @property
    def free_bytes(self) -> int:
        """Not taken by chunks that stay or will, nor by what is still there of those that leave."""
        spared_bytes = sum(self.board.sizes[chunk] for chunk in self.spared)
        return self.board.allocation_bytes - self._stay_bytes - spared_bytes - self.leaving_bytes

    @property
    def excess_bytes(self) -> int:
        """By how much the chunks that stay are too many, where room was lost."""
        return self._stay_bytes - self.board.allocation_bytes

    def lacking(self) -> list[int]:
        """Chunks that stay and are not complete."""
        stays, columns = self.kept.stays, self.board.columns
        lacking: list[int] = stays[columns.resident[stays] != columns.sizes[stays]].tolist()
        return lacking

    def loading(self) -> int:
        """How many chunks are coming in."""
        return sum(not stay.settled for stay in self._open.values())

    @property
    def _leaving(self) -> npt.NDArray[np.bool_]:
        """Shape [chunks]."""
        leaving: npt.NDArray[np.bool_] = (self.board.columns.resident != 0) & ~self.kept.or_spared
        return leaving

    def _there(self) -> list[int]:
        """Chunks of which something is resident, those of which most is first."""
        board = self.board
        there = [chunk for chunk, resident in enumerate(board.resident) if resident]
        return sorted(there, key=lambda chunk: board.resident[chunk] / board.sizes[chunk], reverse=True)

    def _lacking_bytes(self, chunk: int) -> int:
        return self.board.sizes[chunk] - self.board.resident[chunk]


def check_room(sizes_bytes: Sequence[int], allocation_bytes: int) -> None:
    """Raises InvalidArgumentError when the allocation has no room for any two chunks."""
    two_bytes = sum(sorted(sizes_bytes)[-2:])
    if two_bytes > allocation_bytes:
        allocation, two = apart(allocation_bytes, two_bytes)
        raise errors.InvalidArgumentError(
            f"allocation: {allocation} have no room for two chunks of {two} together: "
            "make it larger, or the chunks smaller by making more of them (set-cache's --chunks)"
        )
