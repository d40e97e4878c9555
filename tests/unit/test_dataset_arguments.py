"""Every argument of the public functions is checked, and the error names it."""

from __future__ import annotations

import inspect
import pydoc
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfquiver
from tfquiver import errors
from tfquiver.listing.listing import expand
from tfquiver.users_arguments_checked.checks import directory
from tfquiver.users_arguments_checked.dataset_options import checked_options, default_hold_back

A_SCREEN_LINES = 50


@pytest.mark.slow
def test_importing_tfquiver_does_not_import_tensorflow() -> None:
    code = "import sys, tfquiver; tfquiver.dataset, tfquiver.distribute; assert 'tensorflow' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_public_names() -> None:
    assert tfquiver.__all__ == [
        "ClassBalanced", "Connection", "Curriculum", "CutPolicy", "Deterministic", "FirstUse", "FixedLength", "Pacing",
        "Reading", "Replay", "Reservoir", "Sampling", "Shuffled", "Weighted", "WithReplacement",
        "dataset", "delivery_stats", "distribute", "explain_input", "iterators_stopped", "materialize", "one_stream",
        "status", "step",
    ]  # fmt: skip
    assert set(tfquiver.__all__) <= set(dir(tfquiver))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        tfquiver.nothing  # noqa: B018


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("batch_size", 0),
        ("batch_size", -1),
        ("batch_size", 2.0),
        ("batch_size", True),
        ("batch_size", (1 << 24) + 1),
        ("drop_remainder", True),  # without batch_size
        ("drop_remainder", 1),
        ("job", ""),
        ("job", "a" * 257),
        ("job", "\u00e4" * 129),  # 258 bytes
        ("job", "\ud800"),
        ("job", "a\nb"),
        ("job", 7),
        ("stream", ""),
        ("stream", 7),
        ("order", "sorted"),
        ("order", None),
        ("order", tfquiver.Shuffled),
        ("order", tfquiver.Reading()),
        ("reading", tfquiver.Connection()),
        ("reading", {"hold_back": 3}),
        ("connection", "token"),
    ],
)
def test_options_are_checked(name: str, value: object) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=name):
        checked_options(**{name: value})


def test_options_as_the_op_gets_them() -> None:
    order = tfquiver.Shuffled(shuffle_bytes="1KiB", seed=5)
    options = checked_options(np.int64(8), order=order, job="j")  # type: ignore[arg-type]
    assert options.of_data(1000, 100_000).for_op("here") == {
        "batch_size": 8,
        "deterministic": False,
        "drop_remainder": False,
        "endpoint": "here",
        "hold_back": 1024,
        "homogeneous": False,
        "job": "j",
        "order_log": "",
        "readahead_bytes": 32 << 20,
        "reconnect_ms": 60_000,
        "replay": "",
        "seed": 5,
        "shuffle_bytes": 1024,
        "with_position": False,
    }


@pytest.mark.parametrize(
    ("group", "field", "values"),
    [
        (tfquiver.Shuffled, "shuffle_bytes", [-1, "lots", None]),
        (tfquiver.Shuffled, "seed", [-1, 1 << 63, "x"]),
        (tfquiver.Shuffled, "homogeneous", ["yes", 1]),
        (tfquiver.Shuffled, "log_dir", ["", 7]),
        (tfquiver.Deterministic, "seed", [None, -1]),
        (lambda **fields: tfquiver.Deterministic(1, **fields), "with_position", [1]),
        (lambda **fields: tfquiver.Deterministic(1, **fields), "shuffle_bytes", ["lots"]),
        (tfquiver.Replay, "log", [None, "", 7]),
        (lambda **fields: tfquiver.Replay("log", **fields), "shuffle_bytes", [-1]),
        (tfquiver.Reading, "readahead_bytes", [0, "some"]),
        (tfquiver.Reading, "hold_back", [-1, 1.5]),
        (tfquiver.FirstUse, "name", ["", 3]),
        (tfquiver.FirstUse, "cut", [(1, 2, 3)]),
        (tfquiver.FirstUse, "progress", [True]),
        (tfquiver.Connection, "auth_token_file", [3]),
        (tfquiver.Connection, "connect_timeout_s", [-1, "1"]),
        (tfquiver.Connection, "reconnect_timeout_s", [-1, float("nan"), "1"]),
    ],
)
def test_groups_are_checked_when_they_are_made(group: Callable[..., Any], field: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(errors.InvalidArgumentError, match=field):
            group(**{field: value})


def test_groups_say_what_is_not_as_usual_and_cannot_be_changed() -> None:
    assert repr(tfquiver.Shuffled()) == "Shuffled()"
    assert repr(tfquiver.Deterministic(4, with_position=True)) == "Deterministic(seed=4, with_position=True)"
    assert repr(tfquiver.Reading(hold_back=0)) == "Reading(hold_back=0)"
    assert repr(tfquiver.FirstUse(cut=tfquiver.CutPolicy(1, 2, 3))).startswith("FirstUse(cut=CutPolicy(min_bytes=1, ")
    with pytest.raises(FrozenInstanceError):
        tfquiver.Shuffled().seed = 3  # type: ignore[misc]
    assert tfquiver.Connection(connect_timeout_s=1.0) == tfquiver.Connection(connect_timeout_s=1.0)


def test_help_fits_a_screen() -> None:
    told = pydoc.render_doc(tfquiver.dataset, renderer=pydoc.plaintext)  # type: ignore[attr-defined]
    assert "order: 'Order' = Shuffled()" in told
    arguments = len(inspect.signature(tfquiver.dataset).parameters)
    assert len(told.splitlines()) + arguments <= A_SCREEN_LINES  # newer Pythons show each argument on a line of its own


def test_orders_as_the_op_gets_them() -> None:
    def told(order: Any) -> dict[str, object]:
        options, usual = (checked_options(order=one).for_op("here") for one in (order, tfquiver.Shuffled()))
        return {key: value for key, value in options.items() if usual.get(key) != value}

    assert told("files") == {"files": True, "shuffle_bytes": 0}
    assert told(tfquiver.Deterministic(3, with_position=True)) == {
        "deterministic": True, "seed": 3, "with_position": True,
    }  # fmt: skip
    assert told(tfquiver.Shuffled(homogeneous=True, log_dir="/log")) == {"homogeneous": True, "order_log": "/log"}
    assert told(tfquiver.Replay("/log", shuffle_bytes=5)) == {"replay": "/log", "shuffle_bytes": 5}


def test_seed_0_is_a_seed() -> None:
    options = checked_options(order=tfquiver.Deterministic(0))
    assert options.seed and options.deterministic
    assert checked_options().seed == 0


def test_the_same_arguments_are_the_same_options() -> None:
    """They are hashed for snapshot(): a job without a name gets one from its session key."""
    assert checked_options() == checked_options()
    assert checked_options().job == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "cache_dir= .* or service=.* TFQUIVER_SERVICE"),
        ({"service": "nonsense"}, "service='nonsense'"),
        ({"service": 7}, "service=7"),
        ({"service": "h:1", "quota": "1GiB"}, "quota="),
        ({"cache_dir": "c", "quota": "0"}, "quota"),
        ({"cache_dir": "c", "quota": "some"}, "quota"),
        ({"cache_dir": "c", "quota": "9" * 5000}, "quota: not a size"),
        ({"cache_dir": "c", "quota": "50"}, "quota='50': 50 is 50 bytes: write 50GB or 50MB"),
        ({"cache_dir": "c", "quota": "1kB"}, "quota='1kB': in 1kB no shard has room: the least is 64KiB"),
        (
            {"cache_dir": "gs://bucket/cache"},
            "cache_dir='gs://bucket/cache': must be a directory on a fast disk of this machine",
        ),
        ({"cache_dir": "head:5040"}, "cache_dir='head:5040': an address: a coordinator is given as service='head:50"),
        ({"service": "~/nope"}, "service='~/nope': must be host:port, unix:/path, or a cache directory that is there"),
        ({"cache_dir": "c", "first_use": {"name": "n"}}, "first_use="),
        ({"cache_dir": "c", "connection": tfquiver.Connection(auth_token_file="/nowhere/token")}, "auth_token_file"),
        ({"cache_dir": "c", "batch_size": 0}, "batch_size"),
        ({"cache_dir": "c", "resume": 1}, "resume=1"),
        ({"cache_dir": "c", "resume": True}, "needs job="),
        ({"cache_dir": "c", "resume": True, "job": "j", "order": tfquiver.Replay("log")}, "resume=True: not with"),
        ({"service": "h:1", "order": "files"}, 'order="files" needs cache_dir='),
    ],
)
def test_where_and_how_are_checked(arguments: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=said):
        tfquiver.dataset(str(tmp_path / "*"), **arguments)
    assert not Path("c").exists()


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: tfquiver.ClassBalanced({"a": 1}), r"classes\['a'\]=1: must be a pattern of files or a list of them"),
        (lambda: tfquiver.ClassBalanced({"a": []}), r"classes\['a'\]=\[\]: must be a pattern"),
        (lambda: tfquiver.ClassBalanced({"a": [3]}), r"classes\['a'\]: 3 is no pattern"),
        (lambda: tfquiver.Weighted([np.float32("nan")]), r"weights\[0\]="),
        (lambda: tfquiver.WithReplacement(epoch_share=True), "epoch_share=True"),
    ],
)
def test_arguments_of_schemes_are_named(made: Callable[[], Any], said: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=said):
        made()


def test_numpys_numbers_are_numbers() -> None:
    share, one, two = np.float32(0.5), np.float32(1.0), np.int64(2)
    assert (
        tfquiver.Weighted([one, two], epoch_share=share).asked()
        == tfquiver.Weighted([1.0, 2.0], epoch_share=0.5).asked()
    )
    pacing = tfquiver.Pacing(starting_part=share, growth=two, step_epochs=one)
    told = tfquiver.Curriculum(pacing).arguments_text()
    assert told == '{"pacing":{"starting_part":0.5,"growth":2.0,"step_epochs":1.0},"replacement":true}'
    assert tfquiver.Curriculum([(np.int64(0), share)]).asked() == tfquiver.Curriculum([(0, 0.5)]).asked()


@pytest.mark.parametrize("source", [7, [], [7], None, object()])
def test_a_source_must_be_paths(source: Any, tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidArgumentError):
        tfquiver.dataset(source, cache_dir=tmp_path)


def test_a_source_that_is_nearly_one_is_told_what_to_do(tmp_path: Path) -> None:
    """Of a dict the keys were taken for names of data sets."""
    for source, what in (({"train": "x"}, "give its values"), (b"train-0", "give it as text")):
        with pytest.raises(errors.InvalidArgumentError, match=what):
            tfquiver.dataset(source, cache_dir=tmp_path)  # type: ignore[arg-type]


def test_nothing_to_read_is_said_by_name(tmp_path: Path) -> None:
    with pytest.raises(errors.NotFoundError, match=r"no match for .*train-"):
        tfquiver.dataset(str(tmp_path / "train-*"), cache_dir=tmp_path / "cache")
    with pytest.raises(errors.NotFoundError, match=r"no digest file at .*absent\.tfqd"):
        tfquiver.dataset(tmp_path / "absent.tfqd", cache_dir=tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"dispatcher": "nonsense"}, "dispatcher='nonsense'"),
        ({"dispatcher": 5}, "dispatcher=5"),
        ({"dispatcher": "h:1", "compression": "GZIP"}, "compression"),
        ({"dispatcher": "h:1", "job_name": ""}, "job_name"),
        ({"dispatcher": "h:1", "max_outstanding_requests": 0}, "max_outstanding_requests"),
        ({"dispatcher": "h:1", "connect_timeout_s": 0}, "connect_timeout_s"),
        ({"dispatcher": "h:1", "guarantee": "always"}, "guarantee='always'"),
        ({"dispatcher": "h:1", "guarantee": "exactly_once", "job_name": "j"}, "job_name='j'"),
        ({"dispatcher": "h:1", "data_transfer_protocol": "tfquiver", "job_name": "j"}, "job_name='j'"),
        ({"dispatcher": "h:1", "transform": "parse"}, "transform='parse'"),
        ({"dispatcher": "h:1", "batch_size": 0}, "batch_size"),
        ({"dispatcher": "h:1", "takeover_timeout_s": -1}, "takeover_timeout_s"),
    ],
)
def test_distribute_is_checked(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=said):
        tfquiver.distribute(**arguments)


@pytest.mark.parametrize(
    ("batch_size", "record_bytes", "elements"),
    [
        (0, 100, 1 << 18),
        (0, 100_000, 42_949),  # 4 GiB
        (0, 10_000_000, 1 << 14),
        (1, 100, 1024),
        (256, 4_000, 1024),
        (256, 100_000, 167),
        (256, 10_000_000, 64),
    ],
)
def test_what_is_held_back_covers_what_memory_can_hold(batch_size: int, record_bytes: int, elements: int) -> None:
    assert default_hold_back(batch_size, 1000, 1000 * record_bytes) == elements
    options = checked_options(batch_size or None)
    assert options.of_data(1000, 1000 * record_bytes).hold_back == elements
    given = checked_options(reading=tfquiver.Reading(hold_back=0))
    assert given.of_data(1000, 1000 * record_bytes).hold_back == 0


def test_an_empty_data_set_has_options_too() -> None:
    assert checked_options().of_data(0, 0).hold_back == 1 << 18


@pytest.mark.parametrize("value", ["", "  ", "\0", "a\0b", 5, b"bytes", ["a"], "a" * 5000])
def test_a_directory_that_cannot_be_is_named(value: object) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="cache_dir"):
        tfquiver.dataset("x", cache_dir=value)  # type: ignore[arg-type]


def test_a_home_that_nobody_has_and_a_working_directory_that_is_gone_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"cache_dir='~no-such-user/c': .*home"):
        directory("cache_dir", "~no-such-user/c")
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(errors.InvalidArgumentError, match="cache_dir='c': the working directory is no longer"):
        directory("cache_dir", "c")
    with pytest.raises(errors.InvalidArgumentError, match="log_dir='log': the working directory is no longer"):
        tfquiver.Shuffled(log_dir="log")


def test_a_home_is_a_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "train").touch()
    assert directory("cache_dir", "~/cache") == tmp_path / "cache"
    assert [file.uri for file in expand("~/tr*")] == [f"file://{tmp_path}/train"]


@pytest.mark.parametrize(
    ("source", "kind", "said"),
    [
        ("gs://b/x.tfqd", errors.InvalidArgumentError, "gs://b/x.tfqd: a digest is read from a file of this machine"),
        ("a" * 10_000, errors.InvalidArgumentError, "aaa"),
        ("a\0b", errors.InvalidArgumentError, "zero byte"),
        ("dangling/*", errors.NotFoundError, "dangling/link"),
    ],
)
def test_sources_that_cannot_be_are_named(
    source: str, kind: type[Exception], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dangling").mkdir()
    (tmp_path / "dangling" / "link").symlink_to("nowhere")
    with pytest.raises(kind, match=said):
        tfquiver.dataset(source, cache_dir=tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_the_order_of_files_is_that_of_their_names(tmp_path: Path) -> None:
    for name in ("a-1", "a-2", "b"):
        (tmp_path / name).touch()
    first, second, last = (tmp_path / name for name in ("a-1", "a-2", "b"))
    assert len(expand([tmp_path / "a-*", last], in_order=True)) == 3
    for named, wrong in (([last, first], "a-1 after .*b:"), ([first, second, second], "a-2 after .*a-2:")):
        assert expand(named)
        with pytest.raises(errors.InvalidArgumentError, match=f"{wrong} order=.*give sorted names"):
            tfquiver.dataset(named, cache_dir=tmp_path / "cache", order="files")


def test_a_dispatcher_may_have_an_ipv6_address() -> None:
    with pytest.raises(errors.UnavailableError, match=r"\[::1\]:1"):
        tfquiver.distribute("[::1]:1", connect_timeout_s=1)


def test_a_port_that_only_the_kernel_answers_is_no_dispatcher() -> None:
    with socket.create_server(("localhost", 0)) as silent:
        address = f"localhost:{silent.getsockname()[1]}"
        with pytest.raises(errors.UnavailableError, match=f"{address}.*does not answer within 0.3 s"):
            tfquiver.distribute(address, connect_timeout_s=0.3)
