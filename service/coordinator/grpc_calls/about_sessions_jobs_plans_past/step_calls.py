"""The calls of training processes: how long their steps take, and what is measured of their job; who waits."""

from __future__ import annotations

from typing import Any

from tfquiver import errors
from tfquiver.grpc_plumbing.rpc import caller, handled
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb2
from tfquiver.service.coordinator.grpc_calls import checks
from tfquiver.service.coordinator.grpc_calls.callers import Callers
from tfquiver.service.coordinator.measuring_jobs_and_stores.step_meter import MOST_ACCELERATORS, StepReading

INTERVAL_MS, LONGEST_MS = 5000, 20_000  # well within SILENT_S of the meters
MOST_PER_S = 400  # a report takes a quarter of a millisecond, and readers are served by the same loop
_MOST_TOLD = 1 << 63
_MOST_ITERATORS = 10_000
_MOST = 1 << 53  # more, and floating-point numbers have no place for one more


class StepCalls(Callers):
    @handled
    async def ReportSteps(self, request: pb2.ReportStepsRequest, context: Any) -> pb2.ReportStepsReply:
        checks.name("session_key", request.session_key, required=False)
        checks.name("job", request.job, required=not request.session_key)
        checks.name("process", request.process)
        for field in ("steps", "step_us", "between_us", "records"):
            checks.between(field, getattr(request, field), 0, _MOST)
        checks.between("accelerators", request.accelerators, 0, MOST_ACCELERATORS)
        name = self._reported_for(request.session_key, request.job)
        reading = StepReading(
            request.steps,
            request.step_us / 1e6,
            request.between_us / 1e6,
            request.records,
            request.accelerators,
            request.waits_inside,
        )
        spread_ms = 1000 * self._coordinator.step_meters.processes // MOST_PER_S
        reply = pb2.ReportStepsReply(interval_ms=min(max(INTERVAL_MS, spread_ms), LONGEST_MS))
        if self._coordinator.step_meters.take(name, request.process, reading):
            self._tell(name, reply)
        return reply

    @handled
    async def ReportWaiting(self, request: pb2.ReportWaitingRequest, context: Any) -> pb2.ReportWaitingReply:
        checks.name("session_key", request.session_key)
        checks.name("pipeline", request.pipeline)
        checks.between("iterators", request.iterators, 0, _MOST_ITERATORS)
        checks.between("dispatcher_port", request.dispatcher_port, 0, 65535)
        if self._named:
            self._coordinator.ownership.check_claim(caller(), request.session_key)
        self._coordinator.waiting_trainers.say(
            request.session_key, request.pipeline, request.dispatcher_port, request.iterators
        )
        return pb2.ReportWaitingReply()

    def _reported_for(self, session_key: str, job: str) -> str:
        """What the job is called here: nobody speaks of one that is another's, whatever they call theirs.

        Raises PermissionError_.
        """
        owner = ""
        if self._named:
            if session_key:
                self._coordinator.ownership.check_claim(caller(), session_key)
                owner = self._coordinator.ownership.claimed_by(session_key)
            else:
                owner = caller().owner
            if not owner:
                raise errors.PermissionError_("session_key: nobody has claimed it, and the caller has no name")
        if job:
            return f"{owner}/{job}" if owner else job
        return session_key.partition(":")[0]

    def _tell(self, name: str, reply: pb2.ReportStepsReply) -> None:
        meters = self._coordinator.meters
        found = meters.of_name(name)
        reply.known = True
        reply.read_bytes = min(sum(meter.totals.size_bytes for meter in found.values()), _MOST_TOLD)
        reply.store_bytes = min(sum(meter.totals.missed_bytes for meter in found.values()), _MOST_TOLD)
        measured = [one for key in found if (one := meters.measured_of(key)) is not None]
        if measured:
            reply.bytes_per_s = int(sum(one.bytes_per_s for one in measured))
            reply.stall_share = max(one.stall_share for one in measured)
        hits = [(one.hit_share, one.bytes_per_s) for one in measured if one.hit_share is not None]
        if hits:
            weight = sum(rate for _, rate in hits)
            total = sum(share * rate for share, rate in hits)
            reply.hit_share = total / weight if weight > 0 else hits[0][0]
