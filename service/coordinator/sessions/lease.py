"""What a reader is told when it asks for shards. Pure."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.sampler import Place


class LeaseState(enum.Enum):
    LEASED = "leased"
    WAIT = "wait"
    END = "end"


@dataclass(frozen=True, slots=True)
class LeaseResult:
    """`places`: of each of `shards`. `bypass`: they are read past the cache."""

    state: LeaseState
    shards: tuple[int, ...] = ()
    places: tuple[Place, ...] = ()
    bypass: bool = False
    repeated: bool = field(default=False, compare=False)  # it was said before, and lost on its way
