"""What schemes are given and may give; nonsense is refused, naming scheme and shard."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Mapping
from fnmatch import fnmatchcase
from importlib.metadata import EntryPoint
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.python_calls import python_calls
from tests.unit.test_sampling_distributions import EVEN, population
from tfquiver import errors
from tfquiver.messages_and_binary_formats import drawn_shards as drawn_module
from tfquiver.messages_and_binary_formats.drawn_shards import DrawnShards, drawn_shards
from tfquiver.proto.tfquiver.v1 import commit_log_pb2 as log_pb2
from tfquiver.service.coordinator.sampled_sessions_and_uploaded_weights import asked as asked_module
from tfquiver.service.coordinator.sampled_sessions_and_uploaded_weights.asked import AskedSamplings, arguments_of
from tfquiver.service.coordinator.sampling_by_weights_or_with_replacement.patterns import (
    first_matches,
)
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs import registry
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.chance import Chance
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.drawing import drawn
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.interface import Draws, Population
from tfquiver.sizes_durations_amounts.amounts import many


class Says:
    """A scheme that draws what it is told to."""

    def __init__(self, *said: object, **arguments: object) -> None:
        self.said = said[0] if said else Draws([0])

    def draw(self, population: Population, epoch: int, chance: Chance) -> Draws:
        return self.said  # type: ignore[return-value]


class Once(Says):
    repeats = False


class Nothing:
    pass


class Fails:
    def draw(self, population: Population, epoch: int, chance: Chance) -> Draws:
        raise RuntimeError("no such\nluck")


@pytest.mark.parametrize(
    ("said", "what"),
    [
        ([1], "draw() gave list, not Draws"),
        (None, "draw() gave NoneType, not Draws"),
        (Draws([0, 50]), "draw 1 is of shard 50; the data set has shards 0 to 49"),
        (Draws([0, -1]), "draw 1 is of shard -1; the data set has shards 0 to 49"),
        (Draws(np.array([2**63], np.uint64)), "its shards are not a list of whole numbers"),
        (Draws([]), "0 draws; an epoch has 1 to 8388608"),
        (Draws(np.zeros(drawn_module.MOST_DRAWS + 1, np.uint8)), "8388609 draws; an epoch has 1 to 8388608"),
        (Draws([0.5]), "its shards are not a list of whole numbers"),
        (Draws([[0], [1]]), "its shards are not a list of whole numbers"),
        (Draws([[0], [1, 2]]), "its shards are not a list of whole numbers"),
        (Draws(["0"]), "its shards are not a list of whole numbers"),
        (Draws(iter([0])), "its shards are not a list of whole numbers"),  # type: ignore[arg-type]
        (Draws([0, 1], [1]), "stage_ends must rise to the number of draws, 2, in at most 10000 stages"),
        (Draws([0, 1], [2, 1]), "stage_ends must rise to the number of draws, 2"),
        (Draws([0, 1], [0, 2]), "stage_ends must rise to the number of draws, 2"),
        (Draws([0, 1], []), "stage_ends must rise to the number of draws, 2"),
        (Draws([0, 1], [1, 2], in_turn=True), "in_turn is without stages"),
    ],
)
def test_what_no_scheme_may_draw(said: Any, what: str) -> None:
    with pytest.raises(errors.InvalidArgumentError) as caught:
        drawn("mine", Says(said), EVEN, 1, 3)
    assert str(caught.value).startswith(f"sampling scheme mine, epoch 3: {what}")


def test_a_shard_twice_is_refused_where_the_scheme_says_that_none_is() -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"mine, epoch 0: shard 4 is drawn twice, which it says"):
        drawn("mine", Once(Draws([3, 4, 1, 4])), EVEN, 1, 0)
    assert drawn("mine", Says(Draws([3, 4, 1, 4])), EVEN, 1, 0).shards.tolist() == [1, 3, 4, 4]


def test_a_scheme_that_raises_is_named() -> None:
    with pytest.raises(
        errors.InvalidArgumentError, match=r"^sampling scheme mine, epoch 2: RuntimeError: no such\\nluck$"
    ):
        drawn("mine", Fails(), EVEN, 1, 2)


def test_draws_are_sorted_in_each_stage_and_left_alone_in_turn() -> None:
    staged = drawn("mine", Says(Draws([9, 2, 7, 3, 1], [3, 5])), EVEN, 1, 0)
    assert (staged.shards.tolist(), staged.stage_ends, staged.records) == ([2, 7, 9, 1, 3], (3, 5), 50)
    assert drawn("mine", Says(Draws([9, 2, 7], in_turn=True)), EVEN, 1, 0).shards.tolist() == [9, 2, 7]


@given(st.lists(st.integers(0, 99), min_size=1, max_size=60), st.data())
def test_messages_of_draws_are_read_as_they_were(shards: list[int], data: st.DataObject) -> None:
    ends = sorted(data.draw(st.sets(st.integers(1, len(shards)), max_size=5)) | {len(shards)})
    made = DrawnShards("mine", np.array(shards, np.uint32), tuple(ends), len(ends) == 1, 7)
    again = drawn_shards(made.message(), 100)
    assert again.shards.tolist() == shards
    assert (again.scheme, again.stage_ends, again.in_turn, again.records) == ("mine", tuple(ends), len(ends) == 1, 7)
    with pytest.raises(
        errors.ProtocolError, match=f"is of shard {max(shards)}; the data set has {many(max(shards), 'shard')}"
    ):
        drawn_shards(made.message(), max(shards))


def test_messages_that_are_wrong_are_refused() -> None:
    made = DrawnShards("mine", np.arange(5, dtype=np.uint32), (5,), False, 5)
    for field, value, what in (
        ("draws", 0, "0 draws"),
        ("draws", 1 << 40, "1099511627776 draws"),
        ("draws", 4, "not the 16 bytes of 4 draws"),
        ("shards_zlib", b"no zlib at all", "not zlib data"),
    ):
        message = made.message()
        setattr(message, field, value)
        with pytest.raises(errors.ProtocolError, match=what):
            drawn_shards(message, 5)
    for ends in ([2], [2, 2, 5], [6]):
        message = made.message()
        message.stage_ends[:] = ends
        with pytest.raises(errors.ProtocolError, match="stage_ends"):
            drawn_shards(message, 5)


def test_a_large_epoch_fits_a_message() -> None:
    """A twentieth of what 4 million draws may take, where they are sorted; in any order they hardly shrink."""
    some = np.sort(np.random.default_rng(1).integers(0, 200_000, 200_000)).astype(np.uint32)
    assert (
        len(DrawnShards("s", some, (len(some),), False, 1).message().shards_zlib) < drawn_module.MOST_MESSAGE_BYTES / 20
    )


@pytest.mark.parametrize(
    ("name", "arguments", "what"),
    [
        ("weighted", {}, "weights: either of files or of shards"),
        ("weighted", {"files": [["*", 1.0]], "shards": [1.0]}, "weights: either of files or of shards"),
        ("weighted", {"files": [["*", -1.0]]}, r"weights\[0\]=-1.0: must be a number from 0 to 1e"),
        ("weighted", {"files": [["*", float("nan")]]}, r"weights\[0\]=nan"),
        ("weighted", {"files": [["a", 1], ["*", True]]}, r"weights\[1\]=True"),
        ("weighted", {"files": [["*", 0]]}, "weights: at least one must be above 0"),
        ("weighted", {"files": [["*"]]}, "weights: must be pairs"),
        ("weighted", {"files": ["ab"]}, r"weights\[0\]='b'"),
        ("weighted", {"files": 7}, "TypeError: "),
        ("weighted", {"shards": [1e300, 10**400]}, r"weights\[1\]=10000"),
        ("weighted", {"shards": [1.0], "epoch_share": 0.0}, r"epoch_share=0.0: must be a number from 1e-06 to 100"),
        ("weighted", {"shards": [1.0], "colour": 1}, "TypeError: .*colour"),
        (
            "curriculum",
            {"pacing": {"starting_part": 0.0, "growth": 2.0, "step_epochs": 1.0}},
            "pacing.starting_part=0.0",
        ),
        ("curriculum", {"pacing": {"starting_part": 0.1}}, "TypeError: "),
        ("curriculum", {"pacing": []}, "pacing: must be a list of 1 to 1000 pairs"),
        ("curriculum", {"pacing": [[0, 0.1], [0, 0.2]]}, "pacing: its epochs must begin with 0 and rise"),
        ("curriculum", {"pacing": [[1, 0.1]]}, "pacing: its epochs must begin with 0 and rise"),
        ("curriculum", {"pacing": [[0, 1.5]]}, r"pacing\[0\]\[1\]=1.5"),
        ("curriculum", {"pacing": [[0, 1.0]], "replacement": 1}, "replacement=1: must be true or false"),
        ("reservoir", {"records": 0}, "records=0: must be a number from 1"),
        ("class_balanced", {"classes": {}}, "classes: must be a mapping"),
        ("class_balanced", {"classes": {"a": [1]}}, r"classes\['a'\]: must be a pattern of files"),
        ("nothing", {}, "there are class_balanced, curriculum, reservoir, weighted, with_replacement$"),
    ],
)
def test_arguments_that_cannot_be(name: str, arguments: Mapping[str, object], what: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=rf"^sampling scheme '?{name}'?: {what}"):
        registry.make(name, arguments)


@pytest.mark.parametrize(
    ("name", "arguments", "what"),
    [
        (
            "weighted",
            {"files": [["part-[0-3]*", 1.0]]},
            r"weights: no pattern matches gs://bucket/data/part-4.tfrecord",
        ),
        ("weighted", {"files": [["*", 1.0], ["part-1*", 2.0]]}, r"weights: no file is left for the pattern 'part-1\*'"),
        ("weighted", {"shards": [1.0]}, "weights: 1 number; the data set has 50 shards"),
        ("class_balanced", {"classes": {"a": "part-0*"}}, "classes: gs://bucket/data/part-1.tfrecord is of none"),
        ("reservoir", {"records": 501}, "records=501: the data set has 500"),
    ],
)
def test_arguments_that_do_not_fit_the_data_set(name: str, arguments: Mapping[str, object], what: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=f"^sampling scheme {name}, epoch 0: {what}"):
        drawn(name, registry.make(name, arguments), EVEN, 1, 0)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("weighted", {"shards": [1.0] + [0.0] * 2000, "epoch_share": 100.0}),
        ("curriculum", {"pacing": [[0, 1e-9]]}),
        ("curriculum", {"pacing": [[0, 1e-9]], "replacement": False}),
        ("curriculum", {"pacing": [[0.0, 1e-9], *([step / 999, 1e-9] for step in range(1, 999))]}),
    ],
)
def test_an_epoch_that_is_too_large_is_refused_before_there_is_memory_for_it(
    name: str, arguments: Mapping[str, object]
) -> None:
    one_and_many = population([1] + [20_000] * 2000, [2001])
    tracemalloc.start()
    try:
        with pytest.raises(errors.InvalidArgumentError, match=r"draws.*; an epoch has 1 to 8388608"):
            drawn(name, registry.make(name, arguments), one_and_many, 1, 0)
        assert tracemalloc.get_traced_memory()[1] < 400 << 20
    finally:
        tracemalloc.stop()


def test_files_that_have_a_weight_but_no_shards() -> None:
    empty = population([10] * 4, [4, 0])
    with pytest.raises(errors.InvalidArgumentError, match="every file that has records has the weight 0"):
        drawn("weighted", registry.make("weighted", {"files": [["part-0*", 0], ["part-1*", 1]]}), empty, 1, 0)
    with pytest.raises(errors.InvalidArgumentError, match=r"classes\['b'\]: its files have no records"):
        classes = {"classes": {"a": "part-0*", "b": "part-1*"}}
        drawn("class_balanced", registry.make("class_balanced", classes), empty, 1, 0)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        EntryPoint(name, f"{__name__}:{value}", registry.GROUP)
        for name, value in (("theirs", "Says"), ("odd", "EVEN"), ("none", "Nothing"), ("weighted", "Says"))
    ]
    points.append(EntryPoint("gone", "no_such_module_at_all:Scheme", registry.GROUP))
    monkeypatch.setattr(registry, "entry_points", lambda group: [one for one in points if one.group == group])


@pytest.mark.usefixtures("installed")
def test_other_packages_register_theirs_and_cannot_replace_ours() -> None:
    assert "theirs" in registry.names()
    assert isinstance(registry.make("theirs", {"any": 1}), Says)
    assert not isinstance(registry.make("weighted", {"shards": [1.0]}), Says)
    for name, what in (
        ("odd", "odd of .*:EVEN is no class"),
        ("none", r"none of .*:Nothing has no method draw\(population, epoch, chance\)"),
        ("gone", "gone of no_such_module_at_all:Scheme cannot be loaded: ModuleNotFoundError"),
    ):
        with pytest.raises(errors.InvalidArgumentError, match=f"^sampling scheme {what}"):
            registry.make(name, {})


@pytest.mark.parametrize(
    ("pattern", "uri", "matches"),
    [
        ("part-*", "gs://b/x/part-1", True),
        ("part-?", "gs://b/x/part-12", False),
        ("x/part-*", "gs://b/x/part-1", True),
        ("/x/part-*", "gs://b/x/part-1", True),
        ("x/part-*", "gs://b/xx/part-1", False),
        ("b/*", "gs://b/x/part-1", True),
        ("gs://b/*", "gs://b/x/part-1", True),
        ("gs://c/*", "gs://b/x/part-1", False),
        ("*", "file:///a/b", True),
        ("*.tfrecord", "file:///a/b.tfrecord/c", False),
        ("part-1", "gs://b/x/part-1", True),
        ("art-1", "gs://b/x/part-1", False),
        ("/b/x/part-1", "gs://b/x/part-1", True),
        ("[!p]*", "gs://b/x/part-1", False),
        ("a.c", "gs://b/abc", False),
    ],
)
def test_patterns(pattern: str, uri: str, matches: bool) -> None:
    assert (first_matches([pattern], [uri]).tolist() == [0]) == matches


def test_the_first_pattern_that_matches_counts() -> None:
    files = ["gs://b/rare-1", "gs://b/common", "gs://b/other"]
    assert first_matches(["rare-*", "common", "*"], files).tolist() == [0, 1, 2]
    assert first_matches(["*", "common"], files).tolist() == [0, 0, 0]


_PATHS = st.text("ab/", max_size=6).map(lambda text: f"gs://{text}")
_PATTERNS = st.text("ab/*?[]!", min_size=1, max_size=7) | st.text("ab/*", min_size=1, max_size=7).map("gs://{}".format)


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(st.lists(_PATTERNS, min_size=1, max_size=6), st.lists(_PATHS, min_size=1, max_size=6))
def test_patterns_match_among_others_what_they_match_alone(patterns: list[str], files: list[str]) -> None:
    def matches(pattern: str, uri: str) -> bool:
        ends = [uri, *(uri[at:] for at, one in enumerate(uri) if one == "/")]
        if pattern in {*ends, *(end[1:] for end in ends[1:])}:
            return True
        if not set("*?[") & set(pattern):
            return False
        if "/" not in pattern:
            return fnmatchcase(uri.rpartition("/")[2], pattern)
        if "://" in pattern:
            return fnmatchcase(uri, pattern)
        relative = pattern.removeprefix("/")
        return fnmatchcase(uri, relative) or fnmatchcase(uri, f"*/{relative}")

    alone = [next((at for at, one in enumerate(patterns) if matches(one, uri)), -1) for uri in files]
    assert first_matches(patterns, files).tolist() == alone


@pytest.mark.parametrize("form", ["class-{}/*", "*/class-{}/*.tfrecord", "{}-*", "*-{}", "gs://b/{}-*/*"])
def test_of_many_patterns_few_are_tried_with_a_file(form: str) -> None:
    """A class each, say: of so many patterns that are tried in vain no epoch is drawn in time."""
    texts = [f"n{number:05}" for number in range(400)]
    files = [f"gs://b/{text}-x/class-{text}/{text}-{text}" for text in texts]
    patterns = [form.format(text) for text in texts]
    if form.endswith(".tfrecord"):
        files = [f"{uri}.tfrecord" for uri in files]
    assert first_matches(patterns, files).tolist() == list(range(400))
    of_patterns = python_calls(lambda: first_matches(patterns, []))
    assert python_calls(lambda: first_matches(patterns, files)) - of_patterns < 400 * 100


def test_what_was_asked_for_is_journaled_once_and_found_again() -> None:
    journal: list[log_pb2.CommitRecord] = []
    book = AskedSamplings(journal.append)
    asked = log_pb2.SamplingAsked(session_key="k~weighted", digest_id=b"d" * 32, scheme="weighted", arguments="{}")
    book.ask(asked)
    book.ask(asked)
    assert len(journal) == 1
    again = AskedSamplings(journal.append)
    for record in book.still()():
        again.apply(record)
    assert again.find("k~weighted", b"d" * 32) == asked
    assert again.find("k~weighted:more", b"d" * 32) == asked
    assert again.find("plain", b"d" * 32) is None
    for key, digest_id in (("k~weighted", b"e" * 32), ("other~weighted", b"d" * 32)):
        with pytest.raises(errors.InvalidArgumentError, match="is not known here any more"):
            again.find(key, digest_id)


def test_of_too_many_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked_module, "MOST_ASKED", 3)
    book = AskedSamplings([].append)
    for number in range(5):
        book.ask(log_pb2.SamplingAsked(session_key=f"{number}~s", digest_id=b"", scheme="s"))
    assert [record.sampling_asked.session_key for record in book.still()()] == ["2~s", "3~s", "4~s"]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "not JSON"),
        ("[1]", "must be a JSON object"),
        ('{"a": NaN}', "NaN is no number"),
        ('{"a": Infinity}', "Infinity is no number"),
        ("[" * 100_000, "not JSON"),
        ('{"a":' * 9 + "1" + "}" * 9, "at most 8 deep"),
        ('{"a": "' + "x" * (1 << 20) + '"}', "bytes; the limit is 1048576"),
    ],
)
def test_arguments_that_are_no_arguments(text: str, what: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=f"^arguments: .*{what}"):
        arguments_of(text)


def test_draws_of_an_unlucky_rounding_stay_inside() -> None:
    weights = np.array([0.0, 1e-300, 0.0, 1.0, 0.0])
    assert set(Chance(random.Random(1).getrandbits(60), 0).weighted(weights, 10_000).tolist()) == {3}


@pytest.mark.parametrize("epoch", [2**31, 2**53])
def test_an_epoch_after_more_steps_than_are_counted_is_drawn_like_any(epoch: int) -> None:
    """Whoever resumes says which epoch it is: what lay between was counted step by step, and each was remembered."""
    scheme = registry.make("curriculum", {"pacing": {"starting_part": 0.5, "growth": 1, "step_epochs": 1e-3}})
    made = drawn("curriculum", scheme, EVEN, 1, epoch)
    assert len(made.stage_ends) == 1
    assert int(made.shards.max()) < EVEN.shards // 2
