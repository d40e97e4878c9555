"""The data sets that have names, as the coordinator has told of them: all of them once, then what is other. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import coordinator_pb2
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb


def called(names: Sequence[str], first_use: str) -> str:
    """What reasons call content that has these names, which people gave it; `first_use`: what its first scan called it.
    Of several none is said: who reads a reason of one need not know the others."""
    if len(names) == 1:
        return f"data set {names[0]}"
    if names:
        return f"content of {len(names)} data sets"
    return f"data set {first_use}" if first_use else "a data set that has no name"


class NamedList:
    """`version`: for the next request."""

    def __init__(self) -> None:
        self.version = 0
        self._of: dict[str, list[pb.NamedDigest]] = {}  # by name; those that were other last, last
        self._listed: Sequence[pb.NamedDigest] = ()

    def take(self, orders: coordinator_pb2.OrdersReply) -> Sequence[pb.NamedDigest]:
        """All of them; the same object as before where nothing is other. Raises ProtocolError."""
        if orders.named_since and orders.named_since != self.version:
            was, self.version = self.version, 0  # all of it is told next
            raise errors.ProtocolError(f"named_since: {orders.named_since}, of a request that said {was}")
        if not orders.named_since:
            self._of = {}
        if not orders.named_since or orders.named or orders.named_gone:
            for name in {one.name for one in orders.named}.union(orders.named_gone):
                self._of.pop(name, None)
            # A part of a message keeps all of it in memory, with the orders of thousands of data sets.
            for one in coordinator_pb2.OrdersReply(named=orders.named).named:
                self._of.setdefault(one.name, []).append(one)
            self._listed = [one for its in self._of.values() for one in its]
        self.version = orders.named_version
        return self._listed
