"""Data sets that have names: any order of wishes, answers and kills leaves what was asked for, or says why not."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.proto.tfquiver.v1.commit_log_pb2 import CommitRecord
from tfquiver.service.coordinator.named_datasets import lifecycle, specs, tasks
from tfquiver.service.coordinator.named_datasets.lifecycle import Life
from tfquiver.service.coordinator.named_datasets.progress import LONGEST_RETRY_S, MOST_DEFECTS, TaskProgress
from tfquiver.service.coordinator.named_datasets.room import Candidate, to_evict
from tfquiver.service.coordinator.named_datasets.steps import (
    Become,
    Facts,
    GiveRoomBack,
    Go,
    Release,
    SetPin,
    SetPlacement,
    next_step,
)
from tfquiver.service.coordinator.named_datasets.table import NamedTable, unknown
from tfquiver.service.coordinator.named_datasets.told import told


def spec(name: str = "train", **fields: object) -> pb.DatasetSpec:
    return pb.DatasetSpec(name=name, sources=["gs://b/x-*"], **fields)  # type: ignore[arg-type]


def ready() -> Life:
    return lifecycle.scanned(lifecycle.made(spec(), "life", "", False, 1), b"1" * 32, "a")


def digest(number: int) -> bytes:
    return bytes([number]) * 32


@pytest.mark.parametrize("name", ["", "../x", "a b", "-x", "x" * 64, "gs://b/x", "name\n"])
def test_garbage_is_no_name(name: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="names no data set"):
        specs.check(spec(name))


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        (pb.DatasetSpec(name="x"), "sources"),
        (pb.DatasetSpec(name="x", sources=["relative/path"]), r"sources\[0\]"),
        (pb.DatasetSpec(name="x", sources=["/x\0"]), r"sources\[0\]"),
        (pb.DatasetSpec(name="x", sources=["/x"] * 1001), "sources"),
        (pb.DatasetSpec(name="x", digest_id=b"1"), "digest_id"),
        (pb.DatasetSpec.FromString(spec(name="x").SerializeToString() + b"\x38\x07"), "format: 7"),
    ],
)
def test_what_is_wrong_is_named(wrong: pb.DatasetSpec, field: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=field):
        specs.check(wrong)


@pytest.mark.parametrize(
    "reference", ["file:relative", "AKIAEXAMPLE", "env:A B", "k8s:Name/key", "k8s:name", "http://x"]
)
def test_a_secret_is_no_reference_and_is_not_repeated(reference: str) -> None:
    with pytest.raises(errors.InvalidArgumentError) as raised:
        specs.check(spec(credentials=reference))
    assert reference not in str(raised.value)


def test_files_cut_otherwise_are_another_data_set() -> None:
    assert not specs.is_same(spec(), spec(format=types_pb2.DATASET_FORMAT_BYTES))
    of_digest = spec(digest_id=b"1" * 32)
    assert specs.is_same(of_digest, spec(digest_id=b"1" * 32, format=types_pb2.DATASET_FORMAT_BYTES)), "it says it"
    scanning = lifecycle.made(spec(format=types_pb2.DATASET_FORMAT_BYTES), "life", "", False, 1)
    task = tasks.task(scanning, "node", [])
    assert task is not None and task.scan.format == types_pb2.DATASET_FORMAT_BYTES


def test_names_that_are_near_are_said() -> None:
    assert "near it there are imagenet-train" in str(unknown("imagnet-train", ["imagenet-train", "coco"]))
    assert "dataset share" in str(unknown("x", []))


def test_a_new_version_keeps_the_old_one_for_those_who_read_it() -> None:
    life = lifecycle.refresh(lifecycle.prefetch(ready()))
    life = lifecycle.scanned(life, b"2" * 32, "b")
    assert (life.phase, life.version, list(life.old_digest_ids)) == (lifecycle.WARMING, 2, [b"1" * 32])
    back = lifecycle.scanned(lifecycle.refresh(life), b"1" * 32, "b")
    assert list(back.old_digest_ids) == [b"2" * 32], "a source that is as it was before"


def test_a_job_between_two_epochs_keeps_its_version_and_not_the_room_that_the_newest_one_needs() -> None:
    old, new = b"1" * 32, b"2" * 32
    life = lifecycle.scanned(lifecycle.refresh(ready()), new, "a")

    def step(readers: int, awaited: set[bytes], pins: set[bytes]) -> object:
        return next_step(life, Facts({old, new}, ["a"], {old: readers}, TaskProgress(), True, awaited, pins))

    assert step(1, {old}, {old}) is None
    assert step(0, {old}, {old}) == GiveRoomBack(old)
    assert step(0, {old}, set()) is None
    assert step(0, set(), set()) == Release(old, force=False)


def test_a_refresh_that_fails_leaves_the_version_that_there_is() -> None:
    failed = lifecycle.scan_failed(lifecycle.refresh(ready()), "gone")
    assert (failed.phase, failed.version, failed.trouble) == (lifecycle.READY, 1, "gone")
    assert lifecycle.scan_failed(lifecycle.made(spec(), "l", "", False, 1), "gone").phase == lifecycle.FAILED


def test_sources_of_one_made_of_a_digest_are_never_read() -> None:
    """Who may not name sources may make one of a digest, and name any: nodes would read them with what they may."""
    made = lifecycle.made(spec(digest_id=b"1" * 32), "life", "eve", True, 1)
    assert (lifecycle.lost(made).phase, lifecycle.lost(ready()).phase) == (lifecycle.FAILED, lifecycle.SCANNING)


def test_a_stale_one_says_so_until_it_is_refreshed() -> None:
    life = lifecycle.outdated(ready(), b"1" * 32, "gs://b/x-1 has changed")
    assert told(life, None, None, ["a"], 0.0).state == pb.NamedDataset.STATE_STALE
    assert lifecycle.outdated(ready(), b"2" * 32, "of a version before") == ready()
    assert not lifecycle.scanned(lifecycle.refresh(life), b"1" * 32, "a").stale


def test_what_one_node_cannot_scan_another_does_and_what_the_store_does_not_answer_is_asked_again() -> None:
    progress = TaskProgress()
    first = progress.scanner(["a", "b"], "b", "life", 0.0)
    assert first == "b", "who knows its files already"
    progress.failed(pb.ReportTaskRequest(node_id="b", error_code=7, trouble="b may not"), 0.0)
    assert progress.scanner(["a", "b"], "b", "life", 0.0) == "a"
    progress.failed(pb.ReportTaskRequest(node_id="a", error_code=14, trouble="no answer"), 0.0)
    assert (progress.scanner(["a", "b"], "", "life", 0.5), progress.trouble) == ("", "no answer")
    assert progress.scanner(["a", "b"], "", "life", 2.0) == "a"
    assert not progress.all_refused(["a", "b"])
    progress.failed(pb.ReportTaskRequest(node_id="a", error_code=5, trouble="a sees no file"), 2.0)
    assert progress.all_refused(["a", "b"]) == "b may not; a sees no file"
    assert progress.all_refused(["a", "b", "c"]) == "", "one that has come may do it"


def test_a_defect_is_tried_again_now_and_then_and_not_for_ever() -> None:
    progress, now, tries = TaskProgress(), 0.0, 0
    internal, away = errors.code_number(errors.TfquiverError()), errors.code_number(errors.UnavailableError())
    while not (why := progress.all_refused(["a", "b"])):
        now += LONGEST_RETRY_S
        node = progress.scanner(["a", "b"], "a", "life", now)
        progress.failed(pb.ReportTaskRequest(node_id=node, error_code=away, trouble="no answer"), now)
        now += LONGEST_RETRY_S
        assert progress.scanner(["a", "b"], "a", "life", now) == node, "what a store says is no defect"
        progress.failed(pb.ReportTaskRequest(node_id=node, error_code=internal, trouble="KeyError: 7"), now)
        tries += 1
        assert tries <= 2 * MOST_DEFECTS
    assert tries == 2 * MOST_DEFECTS
    assert "5 times on node a, the last time with: KeyError: 7: look into that node's log" in why
    assert "tfquiver dataset refresh" in why
    assert progress.all_refused(["a", "b", "c"]) == ""


def test_files_that_are_no_tfrecords_are_not_read_again_and_again() -> None:
    progress = TaskProgress()
    for node in ("a", "b"):
        assert progress.scanner(["a", "b"], "a", "life", 0.0) == node, "another one may see other bytes"
        code = errors.code_number(errors.DataLossError())
        progress.failed(pb.ReportTaskRequest(node_id=node, error_code=code, trouble="x: damaged length CRC"), 0.0)
    assert progress.all_refused(["a", "b"]) == "x: damaged length CRC"


def test_a_node_that_never_answers_is_not_waited_for_for_ever() -> None:
    """As one of a version that knows nothing of tasks, while nodes are replaced one by one."""
    progress = TaskProgress()
    assert progress.scanner(["old", "new"], "old", "life", 0.0) == "old"
    assert progress.scanner(["old", "new"], "old", "life", 59.0) == "old"
    assert progress.scanner(["old", "new"], "old", "life", 61.0) == "new"
    progress.reports["new"] = pb.ReportTaskRequest(node_id="new")
    assert progress.scanner(["old", "new"], "old", "life", 6000.0) == "new", "it has begun; a listing takes its time"
    assert "node old does not answer" in progress.all_refused(["old"])


def test_whose_answer_is_waited_for_is_said() -> None:
    """As of nodes that are too old to scan: they say nothing at all."""
    life, progress = lifecycle.made(spec(), "life", "", False, 1), TaskProgress()

    def reason(now: float, *nodes: str) -> str:
        return told(life, progress, None, nodes, now).reason

    progress.begun(0.0)
    assert progress.scanner(["a", "b"], "a", "life", 0.0) == "a"
    assert reason(1.0, "a", "b") == ""
    assert "no answer from node a, which is to scan it, yet: is it of an older version" in reason(6.0, "a", "b")
    assert reason(6.0, "a", "b").endswith("(in 54 s another node is asked then)")
    assert progress.scanner(["a", "b"], "a", "life", 61.0) == "b"
    assert reason(62.0, "a", "b") == "", "it was asked just now"
    assert "it fails then" in reason(70.0, "a", "b")
    progress.reports["b"] = pb.ReportTaskRequest(node_id="b")
    assert reason(70.0, "a", "b") == "", "it has begun"


def test_who_has_not_deleted_yet_is_said() -> None:
    life, progress = lifecycle.delete(ready()), TaskProgress()
    progress.begun(0.0)
    progress.reports["a"] = pb.ReportTaskRequest(node_id="a")
    assert told(life, progress, None, ["a", "b"], 1.0).reason == ""
    assert told(life, progress, None, ["a", "b"], 6.0).reason.startswith("no answer from node b yet: is it of an older")
    many = [f"n{number}" for number in range(9)]
    assert "node n0, n1, n2, n3, n4 and 4 more yet" in told(life, progress, None, many, 6.0).reason
    assert told(life, progress, None, ["a"], 6.0).reason == ""


def test_one_whose_turn_has_not_come_says_so() -> None:
    life, progress = lifecycle.made(spec(), "life", "", False, 1), TaskProgress()
    progress.begun(0.0)
    assert told(life, progress, None, ["a"], 6.0).reason == "no node was asked yet: others are scanned first"


def test_what_does_not_fit_is_refused_or_the_oldest_data_sets_go_whole() -> None:
    old, new, empty = Candidate("old", 60, 1), Candidate("new", 60, 2), Candidate("empty", 0, 0)
    assert to_evict("manual", "x", 100, 100, [old]) == []
    assert to_evict("partial", "x", 200, 100, [old]) == []
    assert to_evict("dataset_lru", "x", 150, 100, [new, empty, old]) == ["old"]
    assert to_evict("dataset_lru", "x", 200, 100, [new, old]) == ["old", "new"]
    with pytest.raises(errors.ResourceExhaustedError, match=r"x needs 150 bytes .* some of old \(60 bytes\), new"):
        to_evict("manual", "x", 150, 100, [new, old])
    with pytest.raises(errors.ResourceExhaustedError, match="nothing can be evicted: all else is pinned, or read"):
        to_evict("dataset_lru", "x", 150, 100, [empty])


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
        self.unheard_of: set[bytes] = set()  # scanned by nodes that died before they told

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
                case "scan":
                    report.digest_id = digest(self.source % 3 + 1)
                    self.nodes.registered.add(report.digest_id)
                    if late:
                        self.unheard_of.add(report.digest_id)
                    self.nodes.bytes[node].add(report.digest_id)
                case "warm" if outcome == "done":
                    self.nodes.bytes[node].add(task.warm.digest_id)
                case "evict":
                    self.nodes.bytes[node] -= set(task.evict.digest_ids)
            if not late:
                self.hear(life, report)

    def hear(self, life: Life, report: pb.ReportTaskRequest) -> None:
        progress = self.progress.setdefault(report.task_id, TaskProgress())
        if life.phase != lifecycle.SCANNING:
            progress.reports[report.node_id] = report
        elif report.error_code:
            progress.failed(report, 0.0)
        else:
            self.put(lifecycle.scanned(life, report.digest_id, report.node_id))

    @rule(steps=st.integers(1, 6))
    def the_coordinator_looks(self, steps: int) -> None:
        """So many steps: then it may be killed."""
        for _ in range(steps):
            if not self.step():
                return

    def step(self, told: bool = True) -> bool:
        """One thing that is lacking; whether there was one. Not `told`: the coordinator dies before it notes it."""
        for life in self.table:
            progress = self.progress.setdefault(lifecycle.task_id(life), TaskProgress())
            readers = dict.fromkeys(self.reading, 1)
            pins = self.nodes.pinned - {other.digest_id for other in self.table if other.pinned}
            facts = Facts(self.nodes.registered, ["a", "b"], readers, progress, True, self.awaited, pins)
            match step := next_step(life, facts):
                case None:
                    continue
                case Become():
                    assert step.life != life, "a step changes something"
                    self.put(step.life)
                case Go():
                    self.table.gone(life.spec.name)
                case SetPin():
                    (self.nodes.pinned.add if step.pinned else self.nodes.pinned.discard)(life.digest_id)
                    if told:
                        self.put(lifecycle.pinned(life, step.pinned))
                case GiveRoomBack():
                    assert step.digest_id in self.nodes.pinned and step.digest_id != life.digest_id
                    self.nodes.pinned.discard(step.digest_id)
                case SetPlacement():
                    if told:
                        self.put(lifecycle.placed(life))
                case Release():
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
        assert self.nodes.registered - self.unheard_of <= there, "no version without a name"
        assert set.union(*self.nodes.bytes.values()) - self.unheard_of <= there, "no bytes without an owner"


TestNamedMachine = NamedMachine.TestCase
TestNamedMachine.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
