"""What people are told of a data set that has a name, and of what they wait for."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from tfquiver.cli import calls
from tfquiver.cli.dataset_commands import commands, names, states, waiting
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2


@pytest.mark.parametrize(
    ("named", "said"),
    [
        (pb.NamedDataset(state=pb.NamedDataset.STATE_SCANNING, done_bytes=439, total_bytes=1000), "Scanning 43 %"),
        (pb.NamedDataset(state=pb.NamedDataset.STATE_SCANNING), "Scanning"),
        (pb.NamedDataset(state=pb.NamedDataset.STATE_WARMING, done_bytes=1, total_bytes=8), "Warming 12 %"),
        (pb.NamedDataset(state=pb.NamedDataset.STATE_READY, done_bytes=9, total_bytes=9), "Ready"),
        (pb.NamedDataset(state=pb.NamedDataset.STATE_STALE), "Stale"),
        (pb.NamedDataset(state=pb.NamedDataset.STATE_DELETING), "Deleting"),
    ],
)
def test_a_state_in_words(named: pb.NamedDataset, said: str) -> None:
    assert states.phrase(named) == said


def test_a_version_before_the_newest_one_is_told_as_such() -> None:
    """It was a second row of the same name that said nothing, and `show` said that it is read, where nobody reads."""
    newest = types_pb2.Dataset(name="train", digest_id=b"\x02" * 32)
    named = pb.NamedDataset(state=pb.NamedDataset.STATE_READY, version=2, old_versions=1, dataset=newest)
    named.spec.name = "train"
    told = [{"name": name, "digest_id": f"0{digit}" * 32} for name, digit in (("train", 2), ("train", 1), ("other", 3))]
    listed = names.joined([named], told)
    phrases = [(one["name"], one["digest_id"][:2], one.get("phrase")) for one in listed]
    assert phrases == [("train", "02", "Ready"), ("train", "01", "Old"), ("other", "03", None)]
    version = states.lines(states.plain(named), "Ready")["version"]
    assert version == "2; 1 before it still kept, for jobs that may read on: an hour by default"
    named.old_versions = 0
    assert "phrase" not in names.joined([named], told)[1], "another's of that name"
    assert states.lines(states.plain(named), "Ready")["version"] == "2"


def test_what_helps_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """A source that had changed was named, and it was left to the guide that `refresh` reads it."""
    named = pb.NamedDataset(state=pb.NamedDataset.STATE_STALE, version=1, reason="a-0: the file has changed")
    named.spec.name = "train"
    help = "`tfquiver dataset refresh train` reads what has changed"
    assert states.lines(states.plain(named), "Stale", "train")["what to do"] == help
    assert list(names.reasons([{"name": "train", **states.plain(named)}])) == [f"train: {named.reason}; {help}"]
    assert commands._say(named, as_json=False) == 0
    assert capsys.readouterr().out == f"train: Stale: {named.reason}; {help}\n"
    named.state = pb.NamedDataset.STATE_READY
    assert "what to do" not in states.lines(states.plain(named), "Ready", "train")


def test_one_of_which_nothing_is_cached_says_what_to_do() -> None:
    """Made anew of files that a node has scanned before it is `Ready` at once: nothing was read for it."""
    named = pb.NamedDataset(state=pb.NamedDataset.STATE_READY, version=1, resident_bytes=0)
    assert "`tfquiver dataset prefetch train`" in states.lines(states.plain(named), "Ready", "train")["cached"]
    named.resident_bytes = 1
    assert "prefetch" not in states.lines(states.plain(named), "Ready", "train")["cached"]
    named.resident_bytes, named.state = 0, pb.NamedDataset.STATE_EVICTING
    assert "prefetch" not in states.lines(states.plain(named), "Evicting", "train")["cached"]


def test_what_could_not_be_done_when_it_was_tried_is_told_with_that_time() -> None:
    """A prefetch of a quarter of an hour ago had found no room, and there was room again."""
    named = pb.NamedDataset(state=pb.NamedDataset.STATE_READY, reason="no more room", reason_s=1_780_000_000)
    said = "no more room (as of 2026-05-28 20:26 UTC)"
    assert states.lines(states.plain(named), "Ready")["state"] == f"Ready: {said}"
    listed = {"name": "train", "size_bytes": 9, "resident_bytes": 1, **states.plain(named)}
    assert list(names.reasons([listed])) == [f"train: {said}"]
    named.reason_s = 0
    assert states.lines(states.plain(named), "Ready")["state"] == "Ready: no more room", "of an older coordinator"


def test_a_pin_that_is_wished_for_is_told_as_one_by_an_older_coordinator_only() -> None:
    named = pb.NamedDataset(state=pb.NamedDataset.STATE_READY, reason="not pinned: no room")
    named.spec.pin = True
    assert states.pin_text(states.plain(named)) == ", pinned"
    named.pinned = False
    assert states.pin_text(states.plain(named)) == ", pin waits for room"
    named.pinned, named.reason = True, ""
    assert states.pin_text(states.plain(named)) == ", pinned"


def test_a_bar_has_what_was_done_the_rate_and_the_time_that_is_left() -> None:
    now_s = 100.0
    bar = waiting.bar()
    bar.get_time = lambda: now_s
    task = bar.add_task("warming", total=100 << 20)
    for _ in range(4):
        now_s += 5.0
        bar.advance(task, 10 << 20)
    out = io.StringIO()
    Console(file=out, width=120).print(bar.get_renderable())
    shown = out.getvalue()
    assert "warming" in shown
    assert "41.9/104.9 MB" in shown
    assert "2.1 MB/s" in shown
    assert "0:00:30" in shown


def test_a_list_says_why_something_is_not_all_there() -> None:
    """It was `Ready` and 96 %, and only `show` said that there is no more room."""

    def one(name: str, state: str, here: int | None, reason: str = "no more room") -> dict[str, Any]:
        told = {"name": name, "state": state, "reason": reason, "size_bytes": 100}
        return told if here is None else told | {"resident_bytes": here}

    told = [
        one("part", "ready", 96), one("whole", "ready", 100), one("unknown", "ready", None),
        one("well", "ready", 4, ""),
        one("sick", "failed", None, "no match"), {"name": "plain", "size_bytes": 100},
    ]  # fmt: skip
    assert list(names.reasons(told)) == [
        "part: no more room",
        "sick: no match; `tfquiver dataset refresh sick` tries again, `tfquiver dataset delete sick` takes it away",
    ]
    *_, last = names.reasons([one(str(number), "ready", 0) for number in range(13)])
    assert last == "3 more say why: tfquiver dataset show NAME"


def test_status_marks_a_version_before_the_newest_one() -> None:
    """It was a second row of the same name that said nothing, where `dataset list` says `Old`."""
    newest = types_pb2.Dataset(name="train", digest_id=b"\x02" * 32)
    named = pb.NamedDataset(state=pb.NamedDataset.STATE_READY, version=2, old_versions=1, dataset=newest)
    named.spec.name = "train"
    told: list[dict[str, Any]] = [
        {
            "name": name, "digest_id": f"0{digit}" * 32, "shards": 1, "records": 1, "size_bytes": 1,
            "cache": {"mode": "unset"},
        }
        for name, digit in (("train", 2), ("train", 1), ("other", 3))
    ]  # fmt: skip

    class Stub:
        List = None

    def ask(call: object, request: object) -> pb.ListNamedDatasetsReply:
        return pb.ListNamedDatasetsReply(datasets=[named])

    marked = names.marked_old(ask, Stub, told)
    assert [one.get("old", False) for one in marked] == [False, True, False]
    assert names.marked_old(None, None, told[1:]) == told[1:], "no name is there twice: nobody is asked"
    out = io.StringIO()
    Console(file=out, width=120).print(calls.datasets_table(marked))
    assert out.getvalue().count("train (Old)") == 1
