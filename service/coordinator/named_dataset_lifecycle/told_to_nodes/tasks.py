"""What nodes are to do now for the data sets that have names. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb2
from tfquiver.service.coordinator.named_dataset_lifecycle.lifecycle import DELETING, EVICTING, WARMING, Life, task_id


def task(life: Life, scanner: str, alone: Sequence[bytes]) -> pb2.DatasetTask | None:
    """
    Args:
      scanner: the node that scans it, if it is to be scanned; "": none can now.
      alone: its versions that are no other data set's.
    """
    match life.phase:
        case Life.PHASE_SCANNING if scanner:
            scan = pb2.ScanTask(
                node_id=scanner,
                name=life.spec.name,
                sources=life.spec.sources,
                credentials=life.spec.credentials,
                before_digest_id=life.digest_id,
                format=life.spec.format,
            )
            return pb2.DatasetTask(task_id=task_id(life), scan=scan)
        case Life.PHASE_WARMING:
            return pb2.DatasetTask(task_id=task_id(life), warm=pb2.WarmTask(digest_id=life.digest_id))
        case Life.PHASE_EVICTING | Life.PHASE_DELETING:
            evict = pb2.EvictTask(digest_ids=alone, abandoned=life.phase == DELETING)
            return pb2.DatasetTask(task_id=task_id(life), evict=evict)
    return None


def versions(life: Life) -> list[bytes]:
    """The newest first."""
    return [*([life.digest_id] if life.digest_id else []), *life.old_digest_ids]


def is_of_all_nodes(life: Life) -> bool:
    return life.phase in (WARMING, EVICTING, DELETING)


def named(life: Life) -> list[pb2.NamedDigest]:
    """What every node is to have at hand. Of one that is being scanned anew: the version before."""
    spec = life.spec
    made = [pb2.NamedDigest(digest_id=one, credentials=spec.credentials, name=spec.name) for one in versions(life)]
    for one in made:
        if one.digest_id == life.digest_id:  # an old version may be another name's, which the task has spared
            one.evicted, one.keeps_nothing = life.evicted, life.keeps_nothing
    return made
