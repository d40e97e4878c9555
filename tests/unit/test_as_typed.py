"""What a server refuses is called as it was typed, not as the protocol has it."""

from __future__ import annotations

import pytest

from tfquiver import errors
from tfquiver.cli import calls
from tfquiver.cli.as_typed import as_typed
from tfquiver.cli.main import main, parser


@pytest.mark.parametrize(
    ("command", "said", "shown"),
    [
        (["dataset", "set-cache", "x", "lru"], "setting.chunks: 7; it is", "--chunks: 7; it is"),
        (["dataset", "set-cache", "x", "lru"], "setting.allocation_bytes: 7 bytes", "SETTING: 7 bytes"),
        (["dataset", "place", "x"], "selector: no node matches", "--nodes: no node matches"),
        (["dataset", "place", "x"], "rack_local: node a", "--rack-local: node a"),
        (["dataset", "create", "x"], "sources[3]: empty", "--source: empty"),
        (["dataset", "create", "x"], "name: 'x/' names no", "'x/' names no"),
        (["dataset", "evict", "x"], "name: data set x is pinned: unpin", "data set x is pinned: unpin"),
        (["dataset", "set-cache", "x", "lru"], "digest_id: data set x is pinned", "data set x is pinned"),
        (["dataset", "create", "x"], "digest_id: 3 bytes", "--digest: 3 bytes"),
        (["limit", "x", "1MB"], "job: no job 'x' reads", "no job 'x' reads"),
        (["limit", "x", "1MB"], "bytes_per_s: 1; it is", "RATE: 1; it is"),
        (["policy", "x"], "policy: 'x' is none", "POLICY: 'x' is none"),
        (["plan", "--policy", "x"], "policy: 'x' is none", "--policy: 'x' is none"),
        (["sim", "x", "--scheduler", "x"], "scheduler: 'x' is none", "--scheduler: 'x' is none"),
        (["explain", "x"], "name: 'x': no job", "'x': no job"),
        (["status"], "names: 'x'", "names: 'x'"),  # it has none
        (["limit", "x", "1MB"], "it: setting.chunks: 7", "it: setting.chunks: 7"),
    ],
)
def test_a_field_is_called_as_it_was_typed(command: list[str], said: str, shown: str) -> None:
    names = parser().parse_args(command).shown
    assert as_typed(said, names) == shown
    if not said.startswith("it"):
        assert as_typed(f"coordinator [::1]:5040: {said}", names) == f"coordinator [::1]:5040: {shown}"
        for whom in ("node 0123abcd at h:5041", "coordinator unix:/my cache/run/coordinator.sock"):
            assert as_typed(f"{whom}: {said}", names) == f"{whom}: {shown}"


def test_main_says_it_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refused(*_: object) -> int:
        raise errors.InvalidArgumentError("coordinator localhost:1: policy: 'best' is none of benefit")

    monkeypatch.setattr(calls, "coordinator", refused)
    assert main(["policy", "best", "--service=localhost:1"]) == 1
    assert capsys.readouterr().err == "tfquiver: coordinator localhost:1: POLICY: 'best' is none of benefit\n"
