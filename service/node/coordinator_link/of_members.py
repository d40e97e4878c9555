"""What is made of the list of live nodes, as long as that is the same. Pure; may be called from any thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from tfquiver.proto.tfquiver.v1 import types_pb2

Members = Sequence[types_pb2.NodeInfo]
T = TypeVar("T")


class OfMembers(Generic[T]):
    """To go through a thousand nodes takes a millisecond: too long for what is asked with every shard.

    Args:
      members: every live node; another object whenever they are others.
    """

    def __init__(self, members: Callable[[], Members], make: Callable[[Members], T]) -> None:
        self._members, self._make = members, make
        self._made: tuple[Members, T] | None = None

    def __call__(self) -> T:
        members, made = self._members(), self._made
        if made is None or made[0] is not members:
            made = self._made = members, self._make(members)
        return made[1]
