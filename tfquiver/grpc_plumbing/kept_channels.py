"""Channels of who asks the same servers again and again: to connect costs more than most questions."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Self

import grpc

from tfquiver.grpc_plumbing import rpc

MOST = 256  # each takes a descriptor


class KeptChannels:
    """Not thread-safe. Use as a context manager, or `close` it."""

    def __init__(self) -> None:
        self._kept: dict[str, grpc.Channel] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, address: str) -> bool:
        return address in self._kept

    @contextmanager
    def channel(self, address: str, connect_s: float = 0.0) -> Iterator[grpc.Channel]:
        """As `rpc.channel`, and open afterwards for the next time, unless there are `MOST` such, or it ends in an
        exception: a server that went may come back at another address of the same name."""
        made = self._kept.pop(address, None) or rpc.channel(address, connect_s)
        try:
            yield made
        except BaseException:
            made.close()
            raise
        if len(self._kept) < MOST and address not in self._kept:
            self._kept[address] = made
        else:
            made.close()

    def drop(self, address: str) -> None:
        """It does not answer."""
        if channel := self._kept.pop(address, None):
            channel.close()

    def keep_only(self, addresses: Collection[str]) -> None:
        """Nobody will ask others again."""
        for address in self._kept.keys() - set(addresses):
            self.drop(address)

    def close(self) -> None:
        self.keep_only(())
