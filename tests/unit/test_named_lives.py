"""Data sets that have names: what each wish, answer and refusal makes of one, and what is said of it."""

from __future__ import annotations

import pytest

from tests.unit.named_world import ready, spec
from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.coordinator.named_dataset_lifecycle import lifecycle, specs
from tfquiver.service.coordinator.named_dataset_lifecycle.progress import LONGEST_RETRY_S, MOST_DEFECTS, TaskProgress
from tfquiver.service.coordinator.named_dataset_lifecycle.steps import Become, Facts, GiveRoomBack, Release, next_step
from tfquiver.service.coordinator.named_dataset_lifecycle.table import unknown
from tfquiver.service.coordinator.named_dataset_lifecycle.told import told
from tfquiver.service.coordinator.named_dataset_lifecycle.told_to_nodes import tasks


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


@pytest.mark.parametrize(
    ("before", "now", "is_same"),
    [
        ("/w/here/../x/*.tfrecord", "/w/x/*.tfrecord", True),
        ("file:///w/a/../x/", "file:///w/x/", True),
        ("//w//x", "/w/x", True),
        ("/w/x/", "/w/x", False),
        ("/w/*/../x", "/w/x", False),
        ("gs://w/a/../x", "gs://w/x", False),
        ("file:///w/x", "/w/x", False),
    ],
)
def test_what_an_earlier_version_kept_of_a_local_source_is_the_same(before: str, now: str, is_same: bool) -> None:
    """Else the command that made it is refused when it is given again, as is done at every start of some jobs."""
    one, other = pb.DatasetSpec(name="x", sources=["/b", before]), pb.DatasetSpec(name="x", sources=[now, "/b"])
    assert specs.is_same(one, other) is is_same


def test_files_cut_otherwise_are_another_data_set() -> None:
    assert not specs.is_same(spec(), spec(format=types_pb2.DATASET_FORMAT_BYTES))
    of_digest = spec(digest_id=b"1" * 32)
    assert specs.is_same(of_digest, spec(digest_id=b"1" * 32, format=types_pb2.DATASET_FORMAT_BYTES)), "it says it"
    scanning = lifecycle.made(spec(format=types_pb2.DATASET_FORMAT_BYTES), "life", "", False, 1)
    task = tasks.task(scanning, "node", [])
    assert task is not None and task.scan.format == types_pb2.DATASET_FORMAT_BYTES


def test_names_that_are_near_are_said() -> None:
    assert "near it there is imagenet-train" in str(unknown("imagnet-train", ["imagenet-train", "coco"]))
    assert str(unknown("x", ["coco", "train"])) == "name: no data set is called 'x'; there are coco, train"
    many = [f"set-{number}" for number in range(9)]
    assert str(unknown("x", many)).endswith("; there are set-0, set-1, set-2, set-3, set-4 and 4 more")
    hidden = str(unknown("team.images", ["train"], sees_all=False))
    assert "no data set that you may read (its owner shares one: tfquiver dataset share) is called" in hidden
    assert "dataset share" in str(unknown("x", []))


def test_a_new_version_keeps_the_old_one_for_those_who_read_it() -> None:
    life = lifecycle.refresh(lifecycle.prefetch(ready()))
    life = lifecycle.scanned(life, b"2" * 32, "b")
    assert (life.phase, life.version, list(life.old_digest_ids)) == (lifecycle.WARMING, 2, [b"1" * 32])
    back = lifecycle.scanned(lifecycle.refresh(life), b"1" * 32, "b")
    assert list(back.old_digest_ids) == [b"2" * 32], "a source that is as it was before"


def test_a_job_between_two_epochs_keeps_its_version_and_not_the_room_that_somebody_needs() -> None:
    old, new = b"1" * 32, b"2" * 32
    life = lifecycle.pinned(lifecycle.scanned(lifecycle.refresh(ready()), new, "a"), True, "")
    life.spec.pin = True

    def step(readers: int, awaited: set[bytes], pins: set[bytes], short: bool = False) -> object:
        return next_step(life, Facts({old, new}, ["a"], {old: readers}, TaskProgress(), True, awaited, pins, short))

    assert step(1, {old}, {old}, short=True) is None
    assert step(0, {old}, {old}) is None
    assert step(0, {old}, {old}, short=True) == GiveRoomBack(old)
    assert step(0, {old}, set(), short=True) is None
    assert step(0, set(), {old}) == GiveRoomBack(old)
    assert step(0, set(), set()) == Release(old, force=False)
    life.spec.pin = False
    life = lifecycle.pinned(life, False, "")
    assert step(0, {old}, {old}) == GiveRoomBack(old), "nobody wants it pinned any more"


def test_who_refreshes_what_is_being_scanned_has_it_listed_again() -> None:
    """That scan may have listed the source before it changed: what has come since was in no version."""
    first = lifecycle.made(spec(pin=True), "l", "", False, 1)
    for scanning in (first, lifecycle.refresh(lifecycle.prefetch(ready()))):
        asked = lifecycle.refresh(scanning)
        assert lifecycle.task_id(asked) == lifecycle.task_id(scanning), "what is scanned already is not lost"
        assert lifecycle.refresh(asked) is asked
        once = lifecycle.scanned(asked, b"2" * 32, "b")
        assert (once.phase, once.digest_id) == (lifecycle.SCANNING, b"2" * 32), "it is read meanwhile"
        assert lifecycle.task_id(once) != lifecycle.task_id(asked)
        twice = lifecycle.scanned(once, b"3" * 32, "b")
        assert (twice.phase, twice.version) == (lifecycle.WARMING, scanning.version + 2)
        assert lifecycle.scan_failed(asked, "a file has gone").phase == lifecycle.SCANNING
        assert not lifecycle.delete(asked).refresh_again


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
    assert progress.scanner(["new", "old"], "old", "life", 0.0) == "old"
    assert progress.scanner(["new", "old"], "old", "life", 59.0) == "old"
    assert progress.scanner(["new", "old"], "old", "life", 61.0) == "new"
    progress.reports["new"] = pb.ReportTaskRequest(node_id="new")
    assert progress.scanner(["new", "old"], "old", "life", 6000.0) == "new", "it has begun; a listing takes its time"
    assert "node old does not answer" in progress.all_refused(["old"])


def test_whose_answer_is_waited_for_is_said() -> None:
    """As of nodes that are too old to scan: they say nothing at all."""
    life, progress = lifecycle.made(spec(), "life", "", False, 1), TaskProgress()

    def reason(now: float, *nodes: str) -> str:
        return told(life, progress, None, nodes, now).reason

    progress.begun(0.0)
    assert progress.scanner(["a", "b"], "a", "life", 0.0) == "a"
    assert reason(1.0, "a", "b") == ""
    assert "no answer from node a, which is to scan it, yet: is it down (tfquiver status)" in reason(6.0, "a", "b")
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
    assert told(life, progress, None, ["a", "b"], 6.0).reason.startswith("no answer from node b yet: is it down")
    many = [f"n{number}" for number in range(9)]
    assert "node n0, n1, n2, n3, n4 and 4 more yet" in told(life, progress, None, many, 6.0).reason
    assert told(life, progress, None, ["a"], 6.0).reason == ""


def test_who_takes_long_to_delete_is_said_and_what_is_in_the_way() -> None:
    """A disk that hangs left it EVICTING without a word, for as long as it did."""
    life, progress = lifecycle.evict(ready()), TaskProgress()
    progress.begun(0.0)
    progress.reports["a"] = pb.ReportTaskRequest(node_id="a", over=True)
    progress.reports["b"] = pb.ReportTaskRequest(node_id="b")
    assert told(life, progress, None, ["a", "b"], 29.0).reason == ""
    said = told(life, progress, None, ["a", "b"], 31.0).reason
    assert said.startswith("node b is not through with it after 31 s: does its disk hang?")
    progress.reports["b"].trouble = "node b: its disk has not answered"
    assert told(life, progress, None, ["a", "b"], 12.0).reason == "node b: its disk has not answered"
    warming = TaskProgress(reports={"b": pb.ReportTaskRequest(node_id="b")}, since_s=0.0)
    assert not warming.waits(["b"], False, 31.0), "what is loaded may take hours"


def test_who_deletes_does_not_wait_for_a_disk_that_does_not_answer() -> None:
    """It may be for ever; what it keeps goes when it answers, as where its node was away. Who empties waits, and is
    told for what."""
    hangs = pb.ReportTaskRequest(node_id="b", trouble="node b: the disk has not answered for 12 s")
    for wish, step in ((lifecycle.delete, Release(ready().digest_id, force=True)), (lifecycle.evict, None)):
        life, progress = wish(ready()), TaskProgress()
        facts = Facts({life.digest_id}, ["a", "b"], {}, progress)
        progress.reports["a"] = pb.ReportTaskRequest(node_id="a", over=True)
        progress.reports["b"] = pb.ReportTaskRequest(node_id="b")
        assert next_step(life, facts) is None
        progress.reports["b"] = hangs
        assert next_step(life, facts) == step


def test_room_that_may_never_be_made_is_not_waited_for() -> None:
    """One disk that hangs under an eviction held back every prefetch of the cluster."""
    progress = TaskProgress(since_s=0.0)
    assert progress.makes_room(["a", "b"], 10.0), "nobody has begun"
    progress.reports["a"] = pb.ReportTaskRequest(node_id="a", over=True)
    progress.reports["b"] = pb.ReportTaskRequest(node_id="b", trouble="its disk has not answered")
    assert not progress.makes_room(["a", "b"], 10.0)
    assert progress.makes_room(["a", "b", "c"], 10.0), "c may be about to"
    progress.reports["b"].trouble = ""
    assert progress.makes_room(["a", "b"], 299.0)
    assert not progress.makes_room(["a", "b"], 301.0)


def test_what_others_have_is_counted_and_not_named() -> None:
    """Who is told of it may not know those."""
    life, progress = lifecycle.evict(ready()), TaskProgress(reports={"a": pb.ReportTaskRequest(over=True)})
    step = next_step(life, Facts({b"1" * 32}, ["a"], {}, progress, shared=("secret", "hidden")))
    assert isinstance(step, Become)
    assert step.life.trouble == "2 other data sets are of the same content: it is kept for them"
    assert progress.holds_back(2, 0.0)
    assert progress.held_back == "room is made first: 2 data sets are being evicted"


def test_one_whose_turn_has_not_come_says_so() -> None:
    life, progress = lifecycle.made(spec(), "life", "", False, 1), TaskProgress()
    progress.begun(0.0)
    assert told(life, progress, None, ["a"], 6.0).reason == "no node was asked yet: others are scanned first"


def test_nodes_that_come_back_after_a_restart_are_not_said_to_be_missing() -> None:
    life = lifecycle.made(spec(), "life", "", False, 1)
    assert told(life, None, None, [], 6.0).reason == "no node that keeps anything (--quota) is there"
    said = "no node has come back yet since the coordinator was started"
    assert told(life, None, None, [], 6.0, met=False).reason == said


def test_a_pin_that_waits_is_told_with_newer_figures_after_a_while() -> None:
    life = lifecycle.pinned(lifecycle.pin(ready(), True), False, "not pinned: room for 10 of 20")
    life = lifecycle.since(life, None, 1000)
    assert lifecycle.pinned(life, False, "not pinned: room for 11 of 20", 1299) is life
    assert lifecycle.pinned(life, False, "not pinned: quotas are 10", 1001).trouble == "not pinned: quotas are 10"
    assert lifecycle.pinned(life, False, "not pinned: room for 11 of 20", 1300).trouble.endswith("11 of 20")


def test_what_was_read_before_its_pin_had_its_room_is_read_once_more() -> None:
    warming = lifecycle.prefetch(lifecycle.pin(ready(), True))
    at_once = lifecycle.warmed(lifecycle.pinned(warming, True), "no room", {"n": 1})
    assert at_once.phase == lifecycle.READY, "it has had its room all the time"
    waited = lifecycle.pinned(lifecycle.pinned(warming, False, "not pinned: no room"), True)
    assert lifecycle.warmed(waited, "").phase == lifecycle.READY
    again = lifecycle.warmed(waited, "no room", {"n": 1})
    assert (again.phase, again.step, again.trouble) == (lifecycle.WARMING, waited.step + 1, "")
    assert lifecycle.warmed(again, "no room", {"n": 1}).phase == lifecycle.READY
    assert not lifecycle.pin(at_once, False).warm
