"""Sampling schemes: values of `order=` of `tfquiver.dataset` with which an epoch is not each record once.

What each draws, and when it is refused, says service/coordinator/sampling_schemes_drawing_epochs; here is only what
can be told at once.
"""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy.typing as npt

from tfquiver import errors
from tfquiver.users_arguments_checked.checks import check_flag, check_integer, check_name
from tfquiver.users_arguments_checked.option_groups import OptionGroup
from tfquiver.users_arguments_checked.sampled import Arguments, Sampled
from tfquiver.users_arguments_checked.user_weights import UserWeights, user_weights

_MAX_RECORDS = 1 << 53
_MOST_EPOCH_SHARE = 100.0
_MOST_COPIES = 64


@dataclass(frozen=True, slots=True, repr=False)
class Pacing(OptionGroup):
    """How much of the data set a `Curriculum` shows at epoch t, a fraction that goes on within epochs:
    min(1, starting_part * growth ** (t // step_epochs)) (SiloD, EuroSys'23, equation 10).

    Args:
      starting_part: above 0, to 1.
      growth: 1 to 1000.
      step_epochs: how long a step is, 0.001 or more; 1.0: once an epoch.
    """

    _: KW_ONLY
    starting_part: float
    growth: float
    step_epochs: float = 1.0

    def __post_init__(self) -> None:
        _check_number("starting_part", self.starting_part, 1e-9, 1.0)
        _check_number("growth", self.growth, 1.0, 1000.0)
        _check_number("step_epochs", self.step_epochs, 1e-3, 1e6)


@dataclass(frozen=True, slots=True, repr=False)
class Curriculum(Sampled):
    """Easy records first. The files, sorted by name, hold the records by difficulty, easiest first; of all of them a
    first part is drawn from, more and more of it, each record in it as likely as any other.

    An epoch draws about as many records as the data set has, by whole shards. Which epoch it is counts `job`, so a run
    that goes on under its old name goes on with its pacing. Records of two steps meet only in the pool of
    `shuffle_bytes`.

    Args:
      pacing: `tfquiver.Pacing(...)`, or pairs (t, part), from epoch t on that part, such as [(0, 0.2), (1.5, 1.0)].
      replacement: whether a shard may come again before all others of the part have come in this step.
      shuffle_bytes: as in `Shuffled`.
      seed: of what is drawn, 0 to 2**63 - 1. Jobs of one seed draw the same, and so share what they miss.

    Raises InvalidArgumentError naming what cannot be right.
    """

    pacing: Pacing | Sequence[tuple[float, float]]
    _: KW_ONLY
    replacement: bool = True
    shuffle_bytes: int | str = "64MiB"
    seed: int = 0

    def __post_init__(self) -> None:
        check_flag("replacement", self.replacement)
        if not isinstance(self.pacing, Pacing):
            _check_stairs(self.pacing)
        self._check_common()

    def asked(self) -> tuple[str, Arguments]:
        pacing = self.pacing
        if isinstance(pacing, Pacing):
            told: object = {
                "starting_part": _plain(pacing.starting_part), "growth": _plain(pacing.growth),
                "step_epochs": _plain(pacing.step_epochs),
            }  # fmt: skip
        else:
            told = [[float(epochs), float(part)] for epochs, part in pacing]
        return "curriculum", {"pacing": told, "replacement": self.replacement}


@dataclass(frozen=True, slots=True, repr=False)
class Weighted(Sampled):
    """Some records more often than others: of each, an epoch has as many as its weight says, on the average.

    By files or shards: shards are drawn with replacement, so records of one shard come together. By records: a draw of
    a shard emits a record with the chance weight / largest weight in the shard, each on its own. An epoch has about
    `epoch_share` times as many records as the data set.

    Args:
      weights: for patterns of files, such as {"*-rare-*": 5.0, "*": 1.0}: the first that a file matches counts, each
        file must match one and each pattern a file. A pattern without a slash is matched with a file's name, one with a
        slash with its path or any end of it. Or a list: a weight for each shard of the digest. Or one for each record,
        in stored order (files sorted by name): a NumPy array, or the path of a file of them, `.npy`, `.tfqw`
        (docs/format/weights.md), or else raw little-endian float32; they count as float32. None is below 0, some are
        above.
      epoch_share: above 0, to 100.
      replacement: of weights of records only. False: an epoch has each record once at most, and is a sample of
        epoch_share x records as if one after the other was drawn by weight and not put back. Which comes first is free.
      copies: of weights of records, with replacement: a draw emits a record so often at most, 1 to 64, each time with
        the chance above. Where few records of a shard are much heavier than the others, so many fewer shards are read.
      shuffle_bytes: as in `Shuffled`.
      seed: as in `Curriculum`.

    Raises InvalidArgumentError naming what cannot be right, and what reading the file raises.
    """

    weights: Mapping[str, float] | Sequence[float] | npt.NDArray[Any] | str | os.PathLike[str] | UserWeights
    _: KW_ONLY
    epoch_share: float = 1.0
    replacement: bool = True
    copies: int = 1
    shuffle_bytes: int | str = "64MiB"
    seed: int = 0

    def __post_init__(self) -> None:
        _check_number("epoch_share", self.epoch_share, 1e-6, _MOST_EPOCH_SHARE)
        check_flag("replacement", self.replacement)
        check_integer("copies", self.copies, 1, _MOST_COPIES)
        if given := user_weights("weights", self.weights):
            object.__setattr__(self, "weights", given)  # as the file has them now
        if given is None:
            self._check_few()
        elif not self.replacement and self.copies != 1:
            raise errors.InvalidArgumentError(f"copies={self.copies}: not with replacement=False")
        self._check_common()

    def _check_few(self) -> None:
        weights = self.weights
        if not isinstance(weights, Mapping | Sequence):
            raise errors.InvalidArgumentError(
                f"weights={weights!r}: must be a mapping of patterns, a list of numbers, an array or a file"
            )
        pairs = weights.items() if isinstance(weights, Mapping) else enumerate(weights)
        for key, value in pairs:
            if isinstance(weights, Mapping):
                _check_pattern("weights", key)
            _check_number(f"weights[{key!r}]", value, 0.0, 1e300)
        if not any(weights.values() if isinstance(weights, Mapping) else weights):
            raise errors.InvalidArgumentError("weights: at least one must be above 0")
        if not self.replacement or self.copies != 1:
            raise errors.InvalidArgumentError("replacement=, copies=: with weights of records only, an array or a file")

    def record_weights(self) -> UserWeights | None:
        return self.weights if isinstance(self.weights, UserWeights) else None

    def asked(self) -> tuple[str, Arguments]:
        weights = self.weights
        if isinstance(weights, UserWeights):
            return "weighted", {
                "records": weights.hashed, "epoch_share": _plain(self.epoch_share), "replacement": self.replacement,
                "copies": int(self.copies),
            }  # fmt: skip
        if isinstance(weights, Mapping):
            files = [[pattern, float(weight)] for pattern, weight in weights.items()]
            return "weighted", {"files": files, "epoch_share": _plain(self.epoch_share)}
        assert isinstance(weights, Sequence)
        return "weighted", {"shards": [float(weight) for weight in weights], "epoch_share": _plain(self.epoch_share)}


@dataclass(frozen=True, slots=True, repr=False)
class WithReplacement(Sampled):
    """A bootstrap sample, by whole shards: each draw is of any shard, whatever has been drawn before.

    An epoch draws about `epoch_share` times as many records as the data set has; of 1.0 some 37 % of the shards do not
    come, and some twice or more.

    Args:
      epoch_share: above 0, to 100.
      shuffle_bytes: as in `Shuffled`.
      seed: as in `Curriculum`.

    Raises InvalidArgumentError naming what cannot be right.
    """

    _: KW_ONLY
    epoch_share: float = 1.0
    shuffle_bytes: int | str = "64MiB"
    seed: int = 0

    def __post_init__(self) -> None:
        _check_number("epoch_share", self.epoch_share, 1e-6, _MOST_EPOCH_SHARE)
        self._check_common()

    def asked(self) -> tuple[str, Arguments]:
        return "with_replacement", {"epoch_share": _plain(self.epoch_share)}


@dataclass(frozen=True, slots=True, repr=False)
class ClassBalanced(Sampled):
    """Of each class as many records as of any other, on the average, however many it has; files hold one class each.

    Shards are drawn with replacement: those of rare classes come again and again. An epoch draws about `epoch_share`
    times as many records as the data set has.

    Args:
      classes: of each class the pattern of its files, or a list of them, such as {"cat": "cat-*", "dog": ["dog-*",
        "puppy-*"]}; as in `Weighted`, and each file is of one.
      epoch_share: above 0, to 100.
      shuffle_bytes: as in `Shuffled`.
      seed: as in `Curriculum`.

    Raises InvalidArgumentError naming what cannot be right.
    """

    classes: Mapping[str, str | Sequence[str]]
    _: KW_ONLY
    epoch_share: float = 1.0
    shuffle_bytes: int | str = "64MiB"
    seed: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.classes, Mapping) or not self.classes:
            raise errors.InvalidArgumentError(f"classes={self.classes!r}: must be a mapping of classes to patterns")
        for name, patterns in self.classes.items():
            check_name("classes", name)
            if not isinstance(patterns, Sequence) or not patterns:
                raise errors.InvalidArgumentError(
                    f"classes[{name!r}]={patterns!r}: must be a pattern of files or a list of them"
                )
            for pattern in [patterns] if isinstance(patterns, str) else patterns:
                _check_pattern(f"classes[{name!r}]", pattern)
        _check_number("epoch_share", self.epoch_share, 1e-6, _MOST_EPOCH_SHARE)
        self._check_common()

    def asked(self) -> tuple[str, Arguments]:
        classes = {name: [one] if isinstance(one, str) else list(one) for name, one in self.classes.items()}
        return "class_balanced", {"classes": classes, "epoch_share": _plain(self.epoch_share)}


@dataclass(frozen=True, slots=True, repr=False)
class Reservoir(Sampled):
    """A sample of about so many records, each subset of so many shards as likely as any other.

    An epoch is that sample, each record once, and its shards are read as they are stored, so that a store is read in
    sequence (OneAccess, HotCloud'19, section 3). Records are shuffled in the pool of `shuffle_bytes`.

    Args:
      records: as many whole shards are taken as have so many on the average; at least one.
      redraw: another sample each epoch; False: always that of the first.
      shuffle_bytes: as in `Shuffled`.
      seed: as in `Curriculum`.

    Raises InvalidArgumentError naming what cannot be right.
    """

    records: int
    _: KW_ONLY
    redraw: bool = True
    shuffle_bytes: int | str = "64MiB"
    seed: int = 0

    def __post_init__(self) -> None:
        check_integer("records", self.records, 1, _MAX_RECORDS)
        check_flag("redraw", self.redraw)
        self._check_common()

    def asked(self) -> tuple[str, Arguments]:
        return "reservoir", {"records": int(self.records), "redraw": self.redraw}


@dataclass(frozen=True, slots=True, repr=False)
class Sampling(Sampled):
    """A scheme of another package, installed where the coordinator runs (docs/guide/sampling.md says how to write one).

    Args:
      scheme: its name among the entry points `tfquiver.sampling_schemes`.
      arguments: of the scheme: plain values, at most 1 MiB as JSON.
      weights: one for each record, an array or a file as in `Weighted`, for a scheme that takes them.
      shuffle_bytes: as in `Shuffled`.
      seed: as in `Curriculum`.

    Raises InvalidArgumentError naming what cannot be right, and what reading the file raises.
    """

    scheme: str
    arguments: Mapping[str, object] = field(default_factory=dict)
    _: KW_ONLY
    weights: npt.NDArray[Any] | str | os.PathLike[str] | UserWeights | None = None
    shuffle_bytes: int | str = "64MiB"
    seed: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.scheme, str):
            raise errors.InvalidArgumentError(f"scheme={self.scheme!r}: must be text")
        check_name("scheme", self.scheme)
        if not isinstance(self.arguments, Mapping) or not all(isinstance(name, str) for name in self.arguments):
            raise errors.InvalidArgumentError(f"arguments={self.arguments!r}: must be a mapping from names to values")
        if self.weights is not None:
            if (given := user_weights("weights", self.weights)) is None:
                raise errors.InvalidArgumentError(f"weights={self.weights!r}: must be an array or a file")
            object.__setattr__(self, "weights", given)  # as the file has them now
        self._check_common()

    def record_weights(self) -> UserWeights | None:
        return self.weights if isinstance(self.weights, UserWeights) else None

    def told_apart_by(self) -> str:
        given = self.record_weights()
        return self.arguments_text() + (given.hashed if given else "")

    def asked(self) -> tuple[str, Arguments]:
        return self.scheme, dict(self.arguments)


def _check_number(name: str, value: object, least: float, most: float) -> None:
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not least <= _plain(value) <= most:
        raise errors.InvalidArgumentError(f"{name}={value!r}: must be a number from {least:g} to {most:g}")


def _plain(number: numbers.Real | float) -> float:
    """As JSON takes it: NumPy's numbers may be given, too."""
    return number if isinstance(number, int | float) else float(number)


def _check_pattern(name: str, value: object) -> None:
    if not isinstance(value, str) or not value or not value.isprintable():
        raise errors.InvalidArgumentError(f"{name}: {value!r} is no pattern of files")


def _check_stairs(stairs: object) -> None:
    if isinstance(stairs, str) or not isinstance(stairs, Sequence) or not stairs:
        raise errors.InvalidArgumentError(f"pacing={stairs!r}: must be a tfquiver.Pacing(...) or pairs (epoch, part)")
    before = -math.inf
    for at, pair in enumerate(stairs):
        if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
            raise errors.InvalidArgumentError(f"pacing[{at}]={pair!r}: must be a pair (epoch, part)")
        _check_number(f"pacing[{at}][0]", pair[0], 0.0, 1e6)
        _check_number(f"pacing[{at}][1]", pair[1], 1e-9, 1.0)
        if pair[0] <= before or (at == 0 and pair[0] != 0):
            raise errors.InvalidArgumentError("pacing: its epochs must begin with 0 and rise")
        before = pair[0]
