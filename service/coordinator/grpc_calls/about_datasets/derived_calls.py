"""The calls on derived data sets: for those only who may read what they are made of, and each name finds its own."""

from __future__ import annotations

from typing import Any

from tfquiver import errors
from tfquiver.grpc_plumbing.rpc import caller, handled
from tfquiver.proto.tfquiver.v1 import derived_datasets_pb2 as pb2
from tfquiver.proto.tfquiver.v1 import derived_datasets_pb2_grpc
from tfquiver.service.coordinator.derived_datasets.claims import MOST_HELD
from tfquiver.service.coordinator.grpc_calls import checks
from tfquiver.service.coordinator.grpc_calls.about_datasets.dataset_calls import check_owns_few
from tfquiver.service.coordinator.grpc_calls.callers import Callers

_MAX_ROWS = 1024
_MAX_USES = 1 << 31


class DerivedDatasetCalls(Callers, derived_datasets_pb2_grpc.DerivedDatasetsServicer):
    @handled
    async def Open(self, request: pb2.OpenDerivedRequest, context: Any) -> pb2.DerivedState:
        checks.hash_("fingerprint", request.fingerprint)
        checks.hash_("digest_id", request.digest_id)
        checks.name("name", request.name)
        checks.name("use_id", request.use_id, required=bool(request.uses_per_draw))
        checks.between("uses_per_draw", request.uses_per_draw, 0, _MAX_USES)
        who = caller()
        source = self._visible.find(who, request.digest_id)
        if not source.records:
            raise errors.InvalidArgumentError(f"digest_id: data set {source.name} has no records")
        check_owns_few(self._coordinator, who)
        return await self._coordinator.deriving.open(who, source, request)

    @handled
    async def Claim(self, request: pb2.ClaimDerivedRequest, context: Any) -> pb2.DerivedState:
        checks.hash_("build_id", request.build_id)
        checks.name("claimer", request.claimer)
        checks.between("most", request.most, 0, MOST_HELD)
        checks.between("computing", len(request.computing), 0, MOST_HELD)
        checks.between("given_back", len(request.given_back), 0, MOST_HELD)
        checks.between("wait_ms", request.wait_ms, 0, checks.MAX_WAIT_MS)
        return await self._coordinator.deriving.claim(caller(), request)

    @handled
    async def Report(self, request: pb2.ReportDerivedRequest, context: Any) -> pb2.DerivedState:
        checks.hash_("build_id", request.build_id)
        checks.name("claimer", request.claimer)
        checks.between("rows", len(request.rows), 1, _MAX_ROWS)
        return await self._coordinator.deriving.report(caller(), request)
