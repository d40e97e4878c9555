"""Policies are found by name, those of other packages too; what is no policy is told."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest

from tests.unit.policy_world import POLICIES
from tfquiver import errors
from tfquiver.service.coordinator.policies import registry
from tfquiver.service.coordinator.policies.views_and_plans.interface import ClusterView, Plan


class Theirs:
    def plan(self, view: ClusterView, now: float) -> Plan:
        return Plan(reasons={"theirs": "yes"})


class NoPolicy:
    pass


def broken() -> None:
    raise RuntimeError("no such machine")


class Mute(Exception):
    def __str__(self) -> str:
        raise NotImplementedError


def speechless() -> None:
    raise Mute


def talkative() -> None:
    raise ValueError("\n" * 100_000)


class Late:
    @property
    def plan(self) -> None:
        raise OSError("not connected yet")


_REGISTERED = {
    "theirs": "Theirs", "odd": "NoPolicy", "broken": "broken", "quiver": "Theirs", "speechless": "speechless",
    "talkative": "talkative", "late": "Late",
}  # fmt: skip


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [EntryPoint(name, f"{__name__}:{value}", registry.GROUP) for name, value in _REGISTERED.items()]
    points.append(EntryPoint("gone", "no_such_module_at_all:Policy", registry.GROUP))
    monkeypatch.setattr(registry, "entry_points", lambda group: [one for one in points if one.group == group])


def test_ours() -> None:
    assert registry.names() == sorted(POLICIES)
    assert registry.DEFAULT in POLICIES


def test_an_unknown_name_is_told_with_those_there_are() -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"^policy: 'best' is none of benefit, lru, .*, static$"):
        registry.make("best")


@pytest.mark.usefixtures("installed")
def test_other_packages_register_theirs_and_cannot_replace_ours() -> None:
    assert registry.make("theirs").plan(ClusterView(0, None, (), ()), 0.0).reasons == {"theirs": "yes"}
    assert "theirs" in registry.names()
    assert registry.make("quiver").plan(ClusterView(0, None, (), ()), 0.0).reasons == {}


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("odd", r"policy: odd of .*:NoPolicy has no method plan\(view, now\)"),
        ("broken", "policy: broken of .*:broken cannot be loaded: RuntimeError: no such machine"),
        ("speechless", r"policy: speechless of .* cannot be loaded: Mute: \(no text\)$"),
        ("talkative", r"policy: talkative of .* cannot be loaded: ValueError: (\\n){200}\.\.\.$"),
        ("late", "policy: late of .*:Late cannot be loaded: OSError: not connected yet"),
        ("gone", "policy: gone of no_such_module_at_all:Policy cannot be loaded: ModuleNotFoundError: "),
    ],
)
def test_what_is_no_policy(name: str, said: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=f"^{said}"):
        registry.make(name)


@pytest.mark.slow
def test_without_the_solver_only_its_policy_is_missing() -> None:
    program = """
import sys
sys.modules["scipy"] = None  # as good as not installed
from tfquiver import errors
from tfquiver.service.coordinator.policies import registry
for name in registry.names():
    try:
        registry.make(name)
    except errors.InvalidArgumentError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    needed = "policy: max_min_fair needs scipy: pip install '.[solver]' in a clone of tfquiver"
    assert done.stdout.splitlines() == [needed]
