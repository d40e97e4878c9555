"""What a stream says to one end of a connection."""

from __future__ import annotations

from typing import Protocol

from tfquiver.service.node.shared_batches.one_pass import Sum


class Member(Protocol):
    """One end of a connection. What is sent with a descriptor owns it."""

    number: int
    process: int
    wants: int | None
    checkpoint: int  # the newest that it was sent is of so many batches

    def give(self, index: int, sum: Sum, descriptor: int, offset: int, on_disk: bool) -> None: ...
    def behind(self, index: int) -> None: ...
    def unmade(self, index: int) -> None: ...
    def over(self, batches: int) -> None: ...
    def take_checkpoint(self, batches: int, descriptor: int) -> None: ...
    def dismiss(self) -> None: ...
    def room(self, batches: int) -> None: ...
