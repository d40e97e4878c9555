"""A shard in the form that a peer is sent: as it is stored."""

from __future__ import annotations

from dataclasses import dataclass

from tfquiver.service.node.disk import entry
from tfquiver.service.node.disk.entry_file import OpenEntry


@dataclass(frozen=True, slots=True)
class StoredBody:
    """A shard as it is stored: what goes to a peer. `fd` is the receiver's to close. `left_the_store`: to answer."""

    fd: int
    offset: int
    header: entry.Header
    left_the_store: bool = False

    def close(self) -> None:
        OpenEntry(self.fd, self.header).close()
