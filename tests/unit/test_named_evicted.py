"""Data sets that have names, and were emptied: what is said, and what nodes are told until somebody uses them."""

from __future__ import annotations

from tests.unit.named_world import ready
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.service.coordinator.named_dataset_lifecycle import lifecycle
from tfquiver.service.coordinator.named_dataset_lifecycle.lifecycle import Life
from tfquiver.service.coordinator.named_dataset_lifecycle.progress import TaskProgress
from tfquiver.service.coordinator.named_dataset_lifecycle.steps import Become, Facts, next_step
from tfquiver.service.coordinator.named_dataset_lifecycle.told_to_nodes import tasks


def test_what_an_evict_leaves_is_said() -> None:
    def evicted(*reports: pb.ReportTaskRequest, away: str = "") -> str:
        progress = TaskProgress(reports={one.node_id: one for one in reports}, seen={"a", *away})
        life = lifecycle.evict(ready())
        step = next_step(life, Facts({life.digest_id}, ["a"], {}, progress))
        assert isinstance(step, Become) and step.life.phase == lifecycle.READY
        return step.life.trouble

    nobody = Facts({ready().digest_id}, [], {}, TaskProgress())
    assert next_step(lifecycle.evict(ready()), nobody) is None, "they come back with all of it"
    done = pb.ReportTaskRequest(node_id="a", over=True)
    assert evicted(done) == ""
    assert evicted(done, away="b") == "node b is away: what it keeps of it goes when it comes back"
    refused = pb.ReportTaskRequest(node_id="a", over=True, error_code=8, trouble="its disk does not let go of 3 shards")
    assert evicted(refused, away="b") == "its disk does not let go of 3 shards"


def test_nodes_that_were_away_are_told_of_an_evict_until_it_was_read_or_pinned_since() -> None:
    def emptied(shared: bool = False) -> Life:
        return lifecycle.evicted(lifecycle.evict(ready()), "", shared)

    task = lifecycle.task_id(lifecycle.evict(ready()))
    assert [one.evicted for one in tasks.named(emptied())] == [task]
    assert [one.evicted for one in tasks.named(emptied(shared=True))] == [""], "nobody has done it"
    assert not lifecycle.evict(emptied()).evicted, "they are given that task itself"
    assert not lifecycle.prefetch(emptied()).evicted
    assert not lifecycle.pin(emptied(), True).evicted
    scanning = lifecycle.refresh(emptied())
    assert scanning.evicted == task
    assert lifecycle.scanned(scanning, scanning.digest_id, "n").evicted == task
    assert not lifecycle.scanned(scanning, b"another".ljust(32), "n").evicted


def test_what_was_emptied_keeps_nothing_until_somebody_uses_it() -> None:
    def keeps_nothing(life: Life) -> bool:
        [told] = tasks.named(life)
        return told.keeps_nothing

    evicting = lifecycle.evict(lifecycle.used(ready(), 120))
    emptied = lifecycle.evicted(evicting, "")
    assert not keeps_nothing(evicting), "what goes is told by its task"
    assert keeps_nothing(emptied) and keeps_nothing(lifecycle.refresh(emptied))
    assert not keeps_nothing(lifecycle.evicted(evicting, "", shared=True)), "nobody has emptied it"
    read = lifecycle.used(emptied, 120)
    assert not keeps_nothing(read) and read.evicted, "a node that was away empties it all the same"
    assert lifecycle.used(read, 120) is read
    for wanted in (lifecycle.prefetch(emptied), lifecycle.pin(emptied, True), lifecycle.evict(emptied)):
        assert not keeps_nothing(wanted)
    scanning = lifecycle.refresh(emptied)
    assert keeps_nothing(lifecycle.scanned(scanning, scanning.digest_id, "n"))
    other = lifecycle.scanned(scanning, b"another".ljust(32), "n")
    assert not any(one.keeps_nothing for one in tasks.named(other))
