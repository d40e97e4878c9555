"""Policies by name: ours, and those that other packages register under the entry point group `tfquiver.policies`."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from tfquiver import errors
from tfquiver.plain_text import of_others_error, shortened
from tfquiver.service.coordinator.policies.benefit import BenefitPolicy
from tfquiver.service.coordinator.policies.views_and_plans.interface import Policy

GROUP = "tfquiver.policies"
DEFAULT = "benefit"
# Imported when chosen, but for the default: who does not want the solver need not have it.
_OURS = {
    DEFAULT: BenefitPolicy.__name__,
    "lru": "LruPolicy",
    "max_min_fair": "MaxMinFairPolicy",
    "none": "NonePolicy",
    "quiver": "QuiverPolicy",
    "silod_greedy": "SilodGreedyPolicy",
    "static": "StaticPolicy",
}


def names() -> list[str]:
    return sorted(_OURS.keys() | _theirs().keys())


def is_ours(name: str) -> bool:
    return name in _OURS


def check(name: str) -> None:
    """Runs nobody's code. Raises InvalidArgumentError: nobody registered it."""
    if name not in _OURS and name not in _theirs():
        raise errors.InvalidArgumentError(f"policy: {shortened(name)} is none of {', '.join(names())}")


def make(name: str) -> Policy:
    """The policy of this name. Ours cannot be replaced under their names.

    Raises:
      InvalidArgumentError: nobody registered it, or what was registered cannot be loaded or is no policy.
    """
    if name in _OURS:
        module = import_module(f"{__package__}.{name}")
        return cast(Policy, getattr(module, _OURS[name])())
    check(name)
    found = _theirs()[name]
    try:
        policy = found.load()()
        plans = callable(getattr(policy, "plan", None))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # else choosing it would end the coordinator
        raise not_loaded(f"{name} of {found.value}", error) from error
    if not plans:
        raise errors.InvalidArgumentError(f"policy: {name} of {found.value} has no method plan(view, now)")
    return cast(Policy, policy)


def not_loaded(what: str, error: BaseException) -> errors.InvalidArgumentError:
    return errors.InvalidArgumentError(f"policy: {what} cannot be loaded: {of_others_error(error)}")


def _theirs() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}
