"""How an entry gets onto the disk: its file is made, what must go for it goes, it is written, synced, named."""

from __future__ import annotations

import errno
import itertools
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from tfquiver import errors
from tfquiver.clock import Clock
from tfquiver.service.node.disk import entry, entry_file, free_room
from tfquiver.service.node.disk.layout import Layout
from tfquiver.service.node.disk.setback import Setback
from tfquiver.service.node.disk_quota_books_and_eviction.books import Books, Claim
from tfquiver.sizes_durations_amounts.amounts import of_bytes

_SURE_S = 1.0  # what the disk writes in less, as it wrote the last one, is not written in pieces


class Landing:
    """Thread-safe: shares the books with the disk cache, and the lock that guards them.

    Args:
      settled: the condition of that lock; told when something that was going is gone, or back.
      delete: deletes the files of entries that are going.
    """

    def __init__(
        self,
        root: Path,
        layout: Layout,
        books: Books,
        settled: threading.Condition,
        clock: Clock,
        delete: Callable[[Sequence[bytes]], int],
    ) -> None:
        self._root, self._layout, self._books, self._settled = root, layout, books, settled
        self._clock, self._delete = clock, delete
        self._setback = Setback()  # of the disk: it failed
        self._lacking = Setback()  # of room on the disk, for entries
        self._numbers = itertools.count()
        self.written_bytes = 0
        self._bytes_per_s = 0.0  # of the last large one

    def trouble(self) -> str:
        """Why nothing should be written now; empty: it may be. Under the lock."""
        return self._setback.trouble(self._clock.now())

    def lacks_room(self) -> str:
        """Says that entries have just taken all of the disk that they may; empty: they have not. Under the lock."""
        return self._lacking.trouble(self._clock.now())

    def write(
        self, claim: Claim, header: entry.Header, stored: bytes, moved: Callable[[], None] = lambda: None
    ) -> None:
        """Makes the claimed entry. Whatever goes wrong with the disk is a refusal (and never a torn entry).

        `moved`: called when the disk has done a part of it.
        """
        temporary = self._layout.temporary_path(claim.hash, next(self._numbers))
        made = standing = False
        try:
            self._leave_free(claim)
            fd = entry_file.create(temporary)
            made = True
            try:
                self._make_way(claim, moved)
                self._write_out(fd, header, stored, moved)
            finally:
                os.close(fd)
            standing = self._land(claim, temporary)
            with self._settled:
                self.written_bytes += header.disk_bytes
                self._setback.over()
                self._lacking.over()
        except OSError as error:
            why = f"{self._root}: an entry cannot be written: {error.strerror}"  # people know no entries
            with self._settled:
                self._setback.failed(why, self._clock.now())
            raise errors.ResourceExhaustedError(f"{why}: the shard is not kept") from error
        finally:
            if not standing:
                self._unmake(claim, temporary if made else None)

    def _write_out(self, fd: int, header: entry.Header, stored: bytes, moved: Callable[[], None]) -> None:
        began_s, in_pieces = self._clock.now(), header.file_bytes >= self._bytes_per_s * _SURE_S
        entry_file.write_synced(fd, entry.encode(header), stored, moved, in_pieces)
        if header.file_bytes > entry_file.SYNCED_BYTES:
            self._bytes_per_s = header.file_bytes / max(self._clock.now() - began_s, 1e-3)

    def _leave_free(self, claim: Claim) -> None:
        """Raises ResourceExhaustedError when the entry would take what entries leave to others."""
        free_bytes, kept_bytes = free_room.look(self._root)
        with self._settled:
            coming_bytes = self._books.ledger.reserved_bytes - claim.held_bytes  # of others, written in part
            left_bytes = free_bytes + claim.victim_bytes - claim.size_bytes - coming_bytes
            if left_bytes < kept_bytes:
                free, kept = of_bytes(free_bytes), of_bytes(kept_bytes)
                why = f"{self._root}: {free} of the disk are free, of which entries leave {kept}"
                self._lacking.failed(why, self._clock.now())
                raise errors.ResourceExhaustedError(f"{why}: the shard is not kept")

    def _make_way(self, claim: Claim, moved: Callable[[], None]) -> None:
        """Raises ResourceExhaustedError when the disk does not let something go."""
        for victim in list(claim.victims):
            if not entry_file.unlink(self._layout.path_of(victim)):
                raise OSError(errno.EROFS, "another one cannot be deleted to make room")
            with self._settled:
                self._books.victim_gone(claim, victim)
                self._settled.notify_all()
            moved()

    def _land(self, claim: Claim, temporary: Path) -> bool:
        """Gives the written file its name; False: it is not to be kept any more."""
        with self._settled:
            self._settled.wait_for(lambda: not self._books.is_going(claim.hash))
            if not self._books.may_land(claim):
                return False
        renamed = False
        path = self._layout.path_of(claim.hash)
        try:
            entry_file.rename(temporary, path)
            renamed = True
        finally:
            with self._settled:
                here = self._books.land(claim, renamed)
        if renamed and not here:
            self._delete([claim.hash])
        return renamed

    def _unmake(self, claim: Claim, temporary: Path | None) -> None:
        gone = temporary is None or entry_file.unlink(temporary)
        with self._settled:
            self._books.abandon(claim, gone)
            self._settled.notify_all()
