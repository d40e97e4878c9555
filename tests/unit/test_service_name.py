"""How a cluster is named: given, by the environment, as an address or a directory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tfquiver import errors
from tfquiver.cli.main import main
from tfquiver.cluster_address import naming, service_name

ENVIRONMENT = {"TFQUIVER_SERVICE": "/from/the/environment"}


def test_what_is_given_counts_then_the_environment() -> None:
    assert service_name.chosen("head:1", ENVIRONMENT) == "head:1"
    assert service_name.chosen(Path("/cache"), ENVIRONMENT) == "/cache"
    assert service_name.chosen(None, ENVIRONMENT) == service_name.chosen("", ENVIRONMENT) == "/from/the/environment"
    assert service_name.chosen("", {}) == ""


def test_an_address_is_itself_and_a_directory_says_where_its_coordinator_is(tmp_path: Path) -> None:
    for address in ("head:5040", "[::1]:5040", "unix:/run/coordinator.sock"):
        assert service_name.coordinator_address(address) == address
        assert service_name.directory_of(address) is None
    fields = {"version": 1, "socket": "/s", "control": "localhost:76", "coordinator": "localhost:77", "node_id": "n"}
    (tmp_path / "node.json").write_text(json.dumps(fields))
    assert service_name.coordinator_address(str(tmp_path)) == "localhost:77"
    assert service_name.directory_of(str(tmp_path)) == tmp_path


def test_a_home_that_nobody_has_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("status", "stop", "clear", "up", "logs"):
        assert main([command, "--service", "~no-such-user/cache"]) == 1
        assert capsys.readouterr().err.startswith("tfquiver: '~no-such-user/cache': Could not")
    with pytest.raises(errors.InvalidArgumentError, match="service='~no-such-user/cache': must be"):
        naming.cluster(None, "~no-such-user/cache")


def test_a_directory_of_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert service_name.directory_of("~/cache") == tmp_path / "cache"


@pytest.mark.parametrize("mistyped", ["coordinator", "head:5o40", "head.example.com", "\0", "x" * 5000])
def test_a_word_alone_is_no_new_directory(mistyped: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(errors.InvalidArgumentError, match=r"neither host:port nor a directory that is there.*\./"):
        service_name.directory_to_use(mistyped)
    (tmp_path / "there").mkdir()
    assert service_name.directory_to_use("there") == Path("there")
    for new in ("./cache", "/new/cache", "~/cache"):
        assert service_name.directory_to_use(new) == Path(new).expanduser()
    assert service_name.directory_to_use("head:5040") is None


@pytest.mark.parametrize("nonsense", ["nothing", "a:b", "\0", "x" * 5000, "head:70000"])
def test_what_is_neither(nonsense: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="neither host:port nor a directory"):
        service_name.coordinator_address(nonsense)
