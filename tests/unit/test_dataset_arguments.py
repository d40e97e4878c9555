"""Every argument of the public functions is checked, and the error names it."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfquiver
from tfquiver import errors
from tfquiver.client.dataset_options import checked_options, default_hold_back, directory
from tfquiver.scanning.listing import expand

DEFAULTS: dict[str, Any] = {
    "batch_size": None,
    "drop_remainder": False,
    "shuffle_bytes": "64MiB",
    "readahead_bytes": "32MiB",
    "seed": None,
    "job": None,
    "hold_back": None,
    "reconnect_timeout_s": 60.0,
}


def test_importing_tfquiver_does_not_import_tensorflow() -> None:
    code = "import sys, tfquiver; tfquiver.dataset, tfquiver.distribute; assert 'tensorflow' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_public_names() -> None:
    assert tfquiver.__all__ == ["CutPolicy", "dataset", "delivery_stats", "distribute", "iterators_stopped"]
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
        ("shuffle_bytes", -1),
        ("shuffle_bytes", "lots"),
        ("shuffle_bytes", None),
        ("readahead_bytes", 0),
        ("seed", -1),
        ("seed", 1 << 63),
        ("seed", "x"),
        ("job", ""),
        ("job", "a" * 257),
        ("job", "\u00e4" * 129),  # 258 bytes
        ("job", "\ud800"),
        ("job", "a\nb"),
        ("job", 7),
        ("hold_back", -1),
        ("hold_back", 1.5),
        ("reconnect_timeout_s", -1),
        ("reconnect_timeout_s", float("nan")),
        ("reconnect_timeout_s", "1"),
    ],
)
def test_options_are_checked(name: str, value: object) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=name):
        checked_options(**{**DEFAULTS, name: value})


def test_options_as_the_op_gets_them() -> None:
    options = checked_options(**{**DEFAULTS, "batch_size": np.int64(8), "job": "j", "seed": 5, "shuffle_bytes": "1KiB"})
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
    ("arguments", "said"),
    [
        ({"order": "sorted"}, "order='sorted'"),
        ({"order": "deterministic"}, "needs seed="),
        ({"order": "deterministic", "seed": 1, "homogeneous": True}, "homogeneous"),
        ({"order": "deterministic", "seed": 1, "order_log": "d"}, "order_log"),
        ({"order": "deterministic", "seed": 1, "replay": "d"}, "replay"),
        ({"with_position": True}, "with_position"),
        ({"with_position": 1}, "with_position"),
        ({"homogeneous": "yes"}, "homogeneous"),
        ({"homogeneous": True, "replay": "d"}, "homogeneous"),
        ({"order_log": ""}, "order_log"),
        ({"replay": 7}, "replay"),
    ],
)
def test_orders_are_checked(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=said):
        checked_options(**DEFAULTS | arguments)


def test_seed_0_is_a_seed() -> None:
    options = checked_options(**DEFAULTS | {"seed": 0, "order": "deterministic"})
    assert options.seed and options.deterministic
    assert checked_options(**DEFAULTS).seed == 0


def test_the_same_arguments_are_the_same_options() -> None:
    """They are hashed for snapshot(): a job without a name gets one from its session key."""
    assert checked_options(**DEFAULTS) == checked_options(**DEFAULTS)
    assert checked_options(**DEFAULTS).job == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "cache_dir= .* or service="),
        ({"service": "nonsense"}, "service='nonsense'"),
        ({"service": 7}, "service=7"),
        ({"service": "h:1", "quota": "1GiB"}, "quota="),
        ({"cache_dir": "c", "quota": "0"}, "quota"),
        ({"cache_dir": "c", "quota": "some"}, "quota"),
        ({"cache_dir": "c", "cut": (1, 2, 3)}, "cut="),
        ({"cache_dir": "c", "name": ""}, "name"),
        ({"cache_dir": "c", "connect_timeout_s": -1}, "connect_timeout_s"),
        ({"cache_dir": "c", "auth_token_file": "/nowhere/token"}, "auth_token_file"),
        ({"cache_dir": "c", "batch_size": 0}, "batch_size"),
    ],
)
def test_where_and_how_are_checked(arguments: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=said):
        tfquiver.dataset(str(tmp_path / "*"), **arguments)
    assert not Path("c").exists()


@pytest.mark.parametrize("source", [7, [], [7], None, object()])
def test_a_source_must_be_paths(source: Any, tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidArgumentError):
        tfquiver.dataset(source, cache_dir=tmp_path)


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
    options = checked_options(**{**DEFAULTS, "batch_size": batch_size or None})
    assert options.of_data(1000, 1000 * record_bytes).hold_back == elements
    given = checked_options(**{**DEFAULTS, "hold_back": 0})
    assert given.of_data(1000, 1000 * record_bytes).hold_back == 0


def test_an_empty_data_set_has_options_too() -> None:
    assert checked_options(**DEFAULTS).of_data(0, 0).hold_back == 1 << 18


@pytest.mark.parametrize("value", ["", "  ", "\0", "a\0b", 5, b"bytes", ["a"], "a" * 5000])
def test_a_directory_that_cannot_be_is_named(value: object) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="cache_dir"):
        tfquiver.dataset("x", cache_dir=value)  # type: ignore[arg-type]


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


def test_a_dispatcher_may_have_an_ipv6_address() -> None:
    with pytest.raises(errors.UnavailableError, match=r"\[::1\]:1"):
        tfquiver.distribute("[::1]:1", connect_timeout_s=1)


def test_a_port_that_only_the_kernel_answers_is_no_dispatcher() -> None:
    with socket.create_server(("localhost", 0)) as silent:
        address = f"localhost:{silent.getsockname()[1]}"
        with pytest.raises(errors.UnavailableError, match=f"{address}.*does not answer within 0.3 s"):
            tfquiver.distribute(address, connect_timeout_s=0.3)
