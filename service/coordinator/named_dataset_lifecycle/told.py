"""What people are told of a data set that has a name. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb2
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.coordinator.named_dataset_lifecycle.lifecycle import Life
from tfquiver.service.coordinator.named_dataset_lifecycle.progress import TaskProgress

_STATES = {
    Life.PHASE_SCANNING: pb2.NamedDataset.STATE_SCANNING,
    Life.PHASE_READY: pb2.NamedDataset.STATE_READY,
    Life.PHASE_WARMING: pb2.NamedDataset.STATE_WARMING,
    Life.PHASE_EVICTING: pb2.NamedDataset.STATE_EVICTING,
    Life.PHASE_DELETING: pb2.NamedDataset.STATE_DELETING,
    Life.PHASE_FAILED: pb2.NamedDataset.STATE_FAILED,
}

_NONE = "no node that keeps anything (--quota) is there"
ITS_TURN = "others are seen to first: nodes are told of some hundreds at a time"
_COMING_BACK = "no node has come back yet since the coordinator was started"
LIST_BYTES = 6 << 20  # a reply; gRPC takes 8 MiB


def fitting(datasets: Mapping[str, tuple[pb2.NamedDataset, int]]) -> list[pb2.NamedDataset]:
    """As many as a reply holds; where that is not all, first the longest lists of sources are left out.

    Args:
      datasets: each with its size, by name.
    """
    left_bytes, found = LIST_BYTES, []
    much = sum(size_bytes for _, size_bytes in datasets.values()) > LIST_BYTES
    for one, size_bytes in datasets.values():
        if much and size_bytes > LIST_BYTES // len(datasets):
            del one.spec.sources[:]
            size_bytes = one.ByteSize()
        left_bytes -= size_bytes + 8
        if left_bytes >= 0:
            found.append(one)
    return found


def told(
    life: Life,
    progress: TaskProgress | None,
    dataset: types_pb2.Dataset | None,
    nodes: Collection[str],
    now: float,
    met: bool = True,
) -> pb2.NamedDataset:
    """`dataset`: its newest version, if there is one; `nodes`: those that can do something. `met`: those that there
    were before a restart have come back, or will not."""
    told = pb2.NamedDataset(
        spec=life.spec,
        state=_STATES.get(life.phase, pb2.NamedDataset.STATE_UNSPECIFIED),
        version=life.version,
        dataset=dataset,
        old_versions=len(life.old_digest_ids),
        owner=life.owner,
        created_s=life.created_s,
        used_s=life.used_s,
        reason=life.trouble,
        reason_s=life.trouble_s,
    )
    if life.spec.pin and dataset is not None:
        told.pinned = life.pinned
    if life.spec.HasField("placement") and dataset is not None:
        told.placed = life.placed
    if life.stale and life.phase == Life.PHASE_READY:
        told.state = pb2.NamedDataset.STATE_STALE
    if life.phase not in (Life.PHASE_READY, Life.PHASE_FAILED):
        if progress is not None:
            told.done_bytes, told.total_bytes = progress.done_bytes, progress.total_bytes
            empties = life.phase in (Life.PHASE_EVICTING, Life.PHASE_DELETING)
            waits = progress.waits(nodes, life.phase == Life.PHASE_SCANNING, now, empties)
            told.reason = progress.trouble or waits or told.reason
        if not nodes:
            told.reason = _NONE if met else _COMING_BACK
        if told.reason != life.trouble:
            told.reason_s = 0
    return told
