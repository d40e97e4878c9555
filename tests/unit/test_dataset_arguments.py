"""Every argument of the public functions is checked, and the error names it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfquiver
from tfquiver import errors
from tfquiver.dataset_options import checked_options

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
        ("batch_size", 1 << 40),
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
        ("job", "a" * 300),
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
    assert options.for_op("here") == {
        "batch_size": 8,
        "deterministic": False,
        "drop_remainder": False,
        "endpoint": "here",
        "hold_back": 16,
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


def test_jobs_are_distinct_and_records_are_held_back_by_default() -> None:
    first, second = checked_options(**DEFAULTS), checked_options(**DEFAULTS)
    assert first.job != second.job
    assert first.hold_back == 2048


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
