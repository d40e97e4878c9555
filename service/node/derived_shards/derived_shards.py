"""What a node has to do with derived shards, together."""

from __future__ import annotations

from collections.abc import Callable

from tfquiver.service.node.derived_shards.computers import Computers
from tfquiver.service.node.derived_shards.elsewhere import Elsewhere, Peers
from tfquiver.service.node.derived_shards.puts import Puts
from tfquiver.service.node.sealed_memory_of_checked_shards.verified import VerifiedShard


class DerivedShards:
    """`place`: as of Puts; `peers`: None: there are no other nodes."""

    def __init__(self, place: Callable[[VerifiedShard], bool], peers: Peers | None) -> None:
        self.puts, self.computers, self.elsewhere = Puts(place), Computers(), Elsewhere(peers)
