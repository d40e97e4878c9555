"""Data sets that have names: any order of wishes, answers and kills leaves what was asked for, or says why not."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.unit.named_world import digest, spec
from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.proto.tfquiver.v1.commit_log_pb2 import CommitRecord
from tfquiver.service.coordinator.named_dataset_lifecycle import lifecycle, steps
from tfquiver.service.coordinator.named_dataset_lifecycle.lifecycle import Life
from tfquiver.service.coordinator.named_dataset_lifecycle.progress import TaskProgress
from tfquiver.service.coordinator.named_dataset_lifecycle.table import NamedTable
from tfquiver.service.coordinator.named_dataset_lifecycle.told import told
from tfquiver.service.coordinator.named_dataset_lifecycle.told_to_nodes import tasks


class Nodes:
    """What nodes do with tasks: a shard of each digest's own, and one that all have."""

    def __init__(self) -> None:
        self.bytes: dict[str, set[bytes]] = {"a": set(), "b": set()}
        self.registered: set[bytes] = set()
        self.pinned: set[bytes] = set()


class NamedMachine(RuleBasedStateMachine):
    """The table, and the world around it: nodes, which do tasks or not, and the catalogue. A kill forgets all but the
    log."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[CommitRecord] = []
        self.table = NamedTable(self.log.append)
        self.progress: dict[str, TaskProgress] = {}
        self.nodes = Nodes()
        self.source = 1
        self.reading: set[bytes] = set()
        self.awaited: set[bytes] = set()  # a job is between two epochs of them
        self.wanted: dict[str, str] = {}  # what a person asked for last, and was not refused
        self.lives = 0
        self.others: set[bytes] = set()  # registered by a scan that has failed then: others may have come to use it

    def put(self, life: Life) -> None:
        self.table.put(life)

    @precondition(lambda self: len(list(self.table)) < 2)
    @rule(name=st.sampled_from("xy"), pin=st.booleans())
    def create(self, name: str, pin: bool) -> None:
        if name in self.table:
            return
        self.lives += 1
        self.put(lifecycle.made(spec(name, pin=pin), f"life{self.lives}", "", False, 1))
        self.wanted[name] = "there"

    @rule(name=st.sampled_from("xy"), wish=st.sampled_from(["prefetch", "evict", "refresh", "delete", "pin", "unpin"]))
    def wish(self, name: str, wish: str) -> None:
        life = self.table.get(name)
        if life is None:
            return
        before = Life()
        before.CopyFrom(life)
        try:
            if wish in ("pin", "unpin"):
                self.put(lifecycle.pin(life, wish == "pin"))
            else:
                self.put(getattr(lifecycle, wish)(life))
        except errors.InUseError:
            assert self.table.get(name) == before, "what is refused changes nothing"
        else:
            if wish == "delete":
                self.wanted[name] = "gone"

    @rule()
    def the_source_changes(self) -> None:
        self.source += 1

    @rule(number=st.integers(1, 3), reads=st.booleans())
    def readers(self, number: int, reads: bool) -> None:
        known = {one for life in self.table for one in tasks.versions(life) if life.phase != lifecycle.DELETING}
        self.awaited = self.reading & known if not reads else set()
        self.reading = {digest(number)} & known if reads else set()

    @rule(node=st.sampled_from("ab"), outcome=st.sampled_from(["done", "done", "refused", "away"]), late=st.booleans())
    def a_node_works(self, node: str, outcome: str, late: bool) -> None:
        """`late`: it does a task and dies before it tells."""
        for life in self.table:
            progress = self.progress.setdefault(lifecycle.task_id(life), TaskProgress())
            scanner = progress.scanner(["a", "b"], life.scanned_by, life.life, 1e9)
            alone = [one for one in tasks.versions(life) if not self.table.holding(one, life.spec.name)]
            task = tasks.task(life, scanner, alone)
            if task is None or outcome == "away":
                continue
            report = pb.ReportTaskRequest(node_id=node, task_id=task.task_id, over=True)
            match task.WhichOneof("work"):
                case "scan" if task.scan.node_id != node:
                    continue
                case "scan" if outcome == "refused":
                    report.error_code, report.trouble = 7, f"{node} may not"
                    self.others.add(life.found_digest_id)
                case "scan":
                    report.digest_id = digest(self.source % 3 + 1)
                    self.nodes.registered.add(report.digest_id)
                    self.put(lifecycle.found(life, task.task_id, report.digest_id))
                    self.nodes.bytes[node].add(report.digest_id)
                case "warm" if outcome == "done":
                    self.nodes.bytes[node].add(task.warm.digest_id)
                case "evict":
                    self.nodes.bytes[node] -= set(task.evict.digest_ids)
            now = self.table.get(life.spec.name)
            if not late and now is not None:
                self.hear(now, report)

    def hear(self, life: Life, report: pb.ReportTaskRequest) -> None:
        progress = self.progress.setdefault(report.task_id, TaskProgress())
        if life.phase != lifecycle.SCANNING:
            progress.reports[report.node_id] = report
        elif report.error_code:
            progress.failed(report, 0.0)
        else:
            self.put(lifecycle.scanned(life, report.digest_id, report.node_id))

    @rule(most=st.integers(1, 6))
    def the_coordinator_looks(self, most: int) -> None:
        """So many steps: then it may be killed."""
        for _ in range(most):
            if not self.step():
                return

    def step(self, told: bool = True) -> bool:
        """One thing that is lacking; whether there was one. Not `told`: the coordinator dies before it notes it."""
        for life in self.table:
            progress = self.progress.setdefault(lifecycle.task_id(life), TaskProgress())
            readers = dict.fromkeys(self.reading, 1)
            pins = self.nodes.pinned - {other.digest_id for other in self.table if other.pinned}
            facts = steps.Facts(self.nodes.registered, ["a", "b"], readers, progress, True, self.awaited, pins)
            match step := steps.next_step(life, facts):
                case None:
                    continue
                case steps.Become():
                    assert step.life != life, "a step changes something"
                    self.put(step.life)
                case steps.Go():
                    self.table.gone(life.spec.name)
                case steps.SetPin():
                    (self.nodes.pinned.add if step.pinned else self.nodes.pinned.discard)(life.digest_id)
                    if told:
                        self.put(lifecycle.pinned(life, step.pinned))
                case steps.GiveRoomBack():
                    assert step.digest_id in self.nodes.pinned and step.digest_id != life.digest_id
                    self.nodes.pinned.discard(step.digest_id)
                case steps.SetPlacement():
                    if told:
                        self.put(lifecycle.placed(life))
                case steps.Release():
                    assert step.force or step.digest_id not in self.reading | self.awaited, "nobody is interrupted"
                    self.release(life, step.digest_id)
                    if told:
                        self.put(lifecycle.released(life, step.digest_id))
            return True
        return False

    @rule()
    def the_coordinator_dies_within_a_step(self) -> None:
        self.step(told=False)
        self.the_coordinator_is_killed()

    def release(self, life: Life, digest_id: bytes) -> None:
        if not self.table.holding(digest_id, life.spec.name):
            self.nodes.registered.discard(digest_id)
            self.nodes.pinned.discard(digest_id)
            for held in self.nodes.bytes.values():
                held.discard(digest_id)  # as nodes do that hear of a removal

    @rule()
    def the_coordinator_is_killed(self) -> None:
        self.table = NamedTable(self.log.append)
        for record in self.log:
            self.table.apply(record)
        self.progress = {}

    @rule()
    def the_log_is_compacted(self) -> None:
        self.log[:] = list(self.table.still()())
        self.the_coordinator_is_killed()

    @invariant()
    def each_says_what_it_is(self) -> None:
        for life in self.table:
            said = told(life, None, None, ["a"], 0.0)
            assert said.state != pb.NamedDataset.STATE_UNSPECIFIED
            if life.phase == lifecycle.FAILED:
                assert said.reason, "a failure has a reason"
            if life.phase in (lifecycle.READY, lifecycle.WARMING, lifecycle.EVICTING):
                assert life.digest_id and life.version
            assert life.digest_id not in life.old_digest_ids

    @invariant()
    def no_allocation_without_a_data_set(self) -> None:
        assert self.nodes.pinned <= self.nodes.registered

    def teardown(self) -> None:
        """Whatever was done: left alone, with nodes that do as they are told, all comes to its end."""
        self.reading = self.awaited = set()
        for _ in range(40):
            for node in "ab":
                self.a_node_works(node, "done", False)
            while self.step():
                pass
        for name, wanted in self.wanted.items():
            life = self.table.get(name)
            if wanted == "gone":
                assert life is None, "it was to go"
            else:
                assert life is not None and life.phase in (lifecycle.READY, lifecycle.FAILED), "nothing hangs"
                assert life.phase != lifecycle.FAILED or life.trouble
                assert not life.old_digest_ids and (not life.digest_id or life.pinned == life.spec.pin)
        there = {life.digest_id for life in self.table if life.digest_id}
        assert self.nodes.registered - self.others <= there, "no version without a name"
        assert set.union(*self.nodes.bytes.values()) - self.others <= there, "no bytes without an owner"


TestNamedMachine = NamedMachine.TestCase
TestNamedMachine.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
