"""Which entries the disk keeps, and in whose account: what it is told by those who know the data sets. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Protocol

from tfquiver.service.node.disk_quota_books_and_eviction.accounts import UNSET, AccountTerms


class Why(Enum):
    """Why an entry is here, or is about to be."""

    STANDS = "it is here already"
    ASKED = "somebody asked this node for it"
    PASSES = "it came by with others"


class Rules(Protocol):
    """Does not change; whoever has others gives the disk new ones."""

    @property
    def terms(self) -> Mapping[bytes, AccountTerms]:
        """Of every account but UNSET."""

    def accounts(self, hash: bytes, why: Why) -> Sequence[bytes]:
        """Keys of the accounts that it may be in, the best first; none: it is not kept."""

    def accounts_of(self, hashes: Sequence[bytes]) -> Sequence[Sequence[bytes]]:
        """For each of many that stand."""


class KeepAll:
    """Nobody has set anything."""

    terms: Mapping[bytes, AccountTerms] = {}

    def accounts(self, hash: bytes, why: Why) -> Sequence[bytes]:
        return (UNSET,)

    def accounts_of(self, hashes: Sequence[bytes]) -> Sequence[Sequence[bytes]]:
        return [(UNSET,)] * len(hashes)
