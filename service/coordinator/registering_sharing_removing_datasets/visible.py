"""The registered data sets as one caller sees them: what somebody may not read is not there for them. Pure."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.roles_and_tokens.identity import Identity, Role
from tfquiver.service.coordinator.registering_sharing_removing_datasets.dataset_table import DatasetTable
from tfquiver.service.coordinator.registering_sharing_removing_datasets.ownership import Ownership

LIST_BYTES = 6 << 20  # a reply; gRPC takes 8 MiB
_Told = tuple[types_pb2.Dataset, int, types_pb2.Dataset]  # what is told, its size, what is registered


class Visible:
    def __init__(self, table: DatasetTable, ownership: Ownership) -> None:
        self._table, self._ownership = table, ownership

    def find(self, who: Identity, digest_id: bytes) -> types_pb2.Dataset:
        """Raises NotFoundError, the same whether it is not there or not theirs to read."""
        if not self._ownership.may_read(who, digest_id):
            raise errors.NotFoundError(f"digest_id: no data set {digest_id.hex()} is registered")
        return self._table.find(digest_id)

    def by_name(self, who: Identity, name: str) -> types_pb2.Dataset:
        """Of several, one of their own before one that is shared with them, before one that is everybody's: nobody
        puts another data set in the place of theirs by giving it the same name."""
        found = [one for one in self._table.named(name) if self._ownership.may_read(who, one.digest_id)]
        if not found and who.role is not Role.JOB:
            return self._table.find_name(name)
        if not found:
            raise errors.NotFoundError(f"name: no data set {name!r} is registered")

        def nearness(one: types_pb2.Dataset) -> int:
            access = self._ownership.access(one.digest_id)
            if who.owner in access.owners:
                return 0
            return 1 if who.owner in access.shared_with else 2 if not access.owners else 3 if access.everybody else 4

        return min(found, key=nearness)

    def some(self, who: Identity, digest_ids: Iterable[bytes]) -> list[types_pb2.Dataset]:
        """Of these those that are there for them, each once."""
        there = (one for one in dict.fromkeys(digest_ids) if one in self._table and self._ownership.may_read(who, one))
        return [self.told(self._table.find(one)) for one in there]

    async def all(self, who: Identity, rest: Callable[[], Awaitable[None]]) -> list[types_pb2.Dataset]:
        """As many as a reply holds, their own first: what others share takes no place from those.

        Args:
          rest: awaited wherever others may come in; of ten thousand it takes a tenth of a second.
        """
        own, others = list[_Told](), list[_Told]()
        for one in self._table.all():
            await rest()
            if self._ownership.may_read(who, one.digest_id):
                told = self.told(one)
                (own if self._ownership.owns(who, one.digest_id) else others).append((told, told.ByteSize(), one))
        readable, fitting, left_bytes = [*own, *others], [], LIST_BYTES
        much = sum(size_bytes for _, size_bytes, _ in readable) > LIST_BYTES  # then of those of few all is told
        for told, size_bytes, one in readable:
            if much and size_bytes >= LIST_BYTES // len(readable):
                told, size_bytes = types_pb2.Dataset(), one.ByteSize()
                told.CopyFrom(one)
            left_bytes -= size_bytes
            if left_bytes >= 0:
                fitting.append(told)
        return fitting

    def told(self, dataset: types_pb2.Dataset) -> types_pb2.Dataset:
        """With whose it is."""
        access = self._ownership.access(dataset.digest_id)
        told = types_pb2.Dataset(owners=access.owners, shared_with=access.shared_with, everybody=access.everybody)
        told.MergeFrom(dataset)
        return told
