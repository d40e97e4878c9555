"""Schemes by name: ours, and those that other packages register under the entry point group
`tfquiver.sampling_schemes`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, cast

from tfquiver import errors
from tfquiver.plain_text import plain, shortened
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.interface import Scheme

GROUP = "tfquiver.sampling_schemes"
# As the entry points of others: found when they are asked for, for they may import this room.
_HERE, _WEIGHTS = __package__, f"{__package__.rpartition('.')[0]}.sampling_by_weights_or_with_replacement"
_OURS = {
    "class_balanced": f"{_WEIGHTS}.class_balanced:ClassBalanced",
    "curriculum": f"{_HERE}.curriculum:Curriculum",
    "reservoir": f"{_HERE}.reservoir:Reservoir",
    "weighted": f"{_WEIGHTS}.weighted:Weighted",
    "with_replacement": f"{_WEIGHTS}.with_replacement:WithReplacement",
}


def names() -> list[str]:
    return sorted(_OURS.keys() | _theirs().keys())


def make(name: str, arguments: Mapping[str, object]) -> Scheme:
    """The scheme of this name, for these arguments. Ours cannot be replaced under their names.

    Raises InvalidArgumentError: nobody registered it, what was registered cannot be loaded or is no scheme, or it
    refuses the arguments.
    """
    kind, where = _kind(name)
    try:
        scheme = kind(**arguments)
    except errors.InvalidArgumentError:
        raise
    except Exception as error:
        raise errors.InvalidArgumentError(f"sampling scheme {where}: {_said(error)}") from error
    if not callable(getattr(scheme, "draw", None)):
        raise errors.InvalidArgumentError(f"sampling scheme {where} has no method draw(population, epoch, chance)")
    return cast(Scheme, scheme)


def _kind(name: str) -> tuple[Any, str]:
    if name in _OURS:
        module, _, kind = _OURS[name].partition(":")
        return getattr(import_module(module), kind), name
    found = _theirs().get(name)
    if found is None:
        raise errors.InvalidArgumentError(f"sampling scheme {shortened(name)}: there are {', '.join(names())}")
    where = f"{name} of {found.value}"
    try:
        kind = found.load()
    except Exception as error:
        raise errors.InvalidArgumentError(f"sampling scheme {where} cannot be loaded: {_said(error)}") from error
    if not callable(kind):
        raise errors.InvalidArgumentError(f"sampling scheme {where} is no class")
    return kind, where


def _said(error: Exception) -> str:
    """Of our own and of plain mistakes the message says enough."""
    text = plain(error)
    return text if isinstance(error, ValueError) else f"{type(error).__name__}: {text}"


def _theirs() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}
