"""What the operator asks the coordinator: data sets that have names, and where a job would be near its data."""

from __future__ import annotations

from collections.abc import Mapping

import grpc
import grpc.aio

from tfquiver import errors
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import coordinator_pb2_grpc, named_datasets_pb2, named_datasets_pb2_grpc
from tfquiver.proto.tfquiver.v1.types_pb2 import DatasetFormat, PlacementRule
from tfquiver.service.operator.checked_specs.dataset_wish import DatasetWish, Rule
from tfquiver.service.operator.dataset_plan import Action, Observed
from tfquiver.service.operator.job_manifest import HOSTNAME, NodeScore
from tfquiver.shard_owners_chunks_hash_prefixes import labels

_CALL_S = 30.0  # after its restart a coordinator waits for the nodes that come back, as long as twelve
_FORMAT = "DATASET_FORMAT_"


class CoordinatorCalls:
    """On one loop. Every method raises the typed error of a call that failed."""

    def __init__(self, address: str, token: str) -> None:
        self._what, self._metadata = f"coordinator {address}", rpc.metadata(token)
        self._channel = rpc.aio_channel(address)
        self._datasets = named_datasets_pb2_grpc.NamedDatasetsStub(self._channel)
        self._coordinator = coordinator_pb2_grpc.CoordinatorStub(self._channel)

    async def close(self) -> None:
        await self._channel.close()

    async def dataset(self, name: str, resident: bool) -> Observed | None:
        """None: there is none. `resident`: how much of it nodes hold is wanted, too."""
        request = named_datasets_pb2.GetNamedDatasetRequest(name=name, resident=resident)
        try:
            found = await self._datasets.Get(request, timeout=_CALL_S, metadata=self._metadata)
            rule = await self._rule(found.dataset.digest_id) if found.dataset.digest_id else Rule()
            return _observed(found, rule)
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                return None
            raise rpc.from_rpc_error(error, self._what) from error

    async def _rule(self, digest_id: bytes) -> Rule:
        request = pb.GetPlacementRequest(digest_id=digest_id)
        found = (await self._coordinator.GetPlacement(request, timeout=_CALL_S, metadata=self._metadata)).rule
        return Rule(found.selector, found.stripe, found.rack_local, found.replicas)

    async def of_same_content(self, name: str, digest_id: str) -> list[str]:
        """Names of other data sets whose newest version that is. `digest_id`: hexadecimal."""
        request = named_datasets_pb2.ListNamedDatasetsRequest()
        try:
            every = (await self._datasets.List(request, timeout=_CALL_S, metadata=self._metadata)).datasets
        except grpc.RpcError as error:
            raise rpc.from_rpc_error(error, self._what) from error
        its = bytes.fromhex(digest_id)
        there = (one for one in every if one.state != named_datasets_pb2.NamedDataset.STATE_DELETING)
        return sorted({one.spec.name for one in there if one.dataset.digest_id == its} - {name})

    async def carry_out(self, action: Action, wish: DatasetWish, digest_id: str) -> None:
        """Safe to repeat. `digest_id`: hexadecimal; empty: it has none yet."""
        try:
            match action:
                case Action.CREATE:
                    await self._datasets.Create(_spec(wish), timeout=_CALL_S, metadata=self._metadata)
                case Action.PIN | Action.UNPIN:
                    pin = named_datasets_pb2.PinDatasetRequest(name=wish.name, pinned=action is Action.PIN)
                    await self._datasets.Pin(pin, timeout=_CALL_S, metadata=self._metadata)
                case Action.PLACE:
                    place = pb.SetPlacementRequest(digest_id=bytes.fromhex(digest_id), rule=_rule(wish.rule))
                    await self._coordinator.SetPlacement(place, timeout=_CALL_S, metadata=self._metadata)
                case Action.PREFETCH:
                    named = named_datasets_pb2.NamedDatasetRequest(name=wish.name)
                    await self._datasets.Prefetch(named, timeout=_CALL_S, metadata=self._metadata)
        except grpc.RpcError as error:
            raise rpc.from_rpc_error(error, self._what) from error

    async def delete(self, name: str) -> None:
        """Harmless when there is none. Raises FailedPreconditionError: it is read."""
        request = named_datasets_pb2.NamedDatasetRequest(name=name)
        try:
            await self._datasets.Delete(request, timeout=_CALL_S, metadata=self._metadata)
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise rpc.from_rpc_error(error, self._what) from error

    async def scores(self, job: str, digest: str, machines: Mapping[str, Mapping[str, str]]) -> list[NodeScore]:
        """Best first; none where the coordinator does not know, or not how to tell.

        Args:
          digest: hexadecimal.
          machines: name -> labels.
        """
        candidates = [pb.Candidate(name=name, labels=labels.of_machine(its)) for name, its in machines.items()]
        request = pb.SuggestPlacementRequest(job=job, digest_id=bytes.fromhex(digest), candidates=candidates)
        try:
            reply = await self._coordinator.SuggestPlacement(request, timeout=_CALL_S, metadata=self._metadata)
        except grpc.RpcError as error:
            if error.code() in (grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.NOT_FOUND):
                return []
            raise rpc.from_rpc_error(error, self._what) from error
        # Affinity asks for a label, which clouds do not always make of the machine's name.
        names = {name: its.get(HOSTNAME) or name for name, its in machines.items()}
        return [NodeScore(names.get(one.name, one.name), one.score) for one in reply.scores]


def _spec(wish: DatasetWish) -> named_datasets_pb2.DatasetSpec:
    return named_datasets_pb2.DatasetSpec(
        name=wish.name,
        sources=wish.sources,
        format=DatasetFormat.Value(f"{_FORMAT}{wish.format.upper()}"),
        credentials=wish.credentials,
        pin=wish.pin,
        placement=_rule(wish.rule),  # it is scanned, and cached, where it is to be
    )


def _rule(rule: Rule) -> PlacementRule | None:
    """None: the one that there is goes."""
    if rule == Rule():
        return None
    return PlacementRule(selector=rule.selector, stripe=rule.stripe, rack_local=rule.rack_local, replicas=rule.replicas)


def _observed(one: named_datasets_pb2.NamedDataset, rule: Rule) -> Observed:
    state = named_datasets_pb2.NamedDataset.State.Name(one.state)
    return Observed(
        state=state.removeprefix("STATE_").lower(),
        reason=one.reason,
        version=one.version,
        sources=tuple(one.spec.sources),
        format=DatasetFormat.Name(one.spec.format).removeprefix(_FORMAT).lower(),
        credentials=one.spec.credentials,
        pin=one.spec.pin,
        digest_id=one.dataset.digest_id.hex(),
        size_bytes=one.dataset.size_bytes,
        done_bytes=one.done_bytes,
        total_bytes=one.total_bytes,
        resident_bytes=one.resident_bytes if one.HasField("resident_bytes") else None,
        rule=rule,
    )


def is_final(error: errors.TfquiverError) -> bool:
    """Whether the same call would be refused again, for what was asked."""
    return isinstance(error, errors.InvalidArgumentError | errors.PermissionError_ | errors.NotFoundError)
