"""An epoch drawn by a scheme, checked. Pure; what a scheme of others does is not bounded in time here."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tfquiver import errors
from tfquiver.messages_and_binary_formats.drawn_shards import MOST_DRAWS, MOST_STAGES, DrawnShards, are_stages
from tfquiver.messages_and_binary_formats.record_picks import MOST_PICK_BYTES, RecordPicks, record_picks
from tfquiver.plain_text import plain
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.chance import Chance
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.interface import Draws, Population, Scheme
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.numbers import too_many_draws
from tfquiver.sizes_durations_amounts.amounts import many


def drawn(name: str, scheme: Scheme, population: Population, seed: int, epoch: int) -> DrawnShards:
    """What the scheme draws for an epoch. Takes a while for millions of shards: in a thread.

    Raises InvalidArgumentError naming the scheme and what is wrong, the shard where it is one.
    """
    if population.weights is not None and not getattr(scheme, "takes_weights", False):
        raise errors.InvalidArgumentError(f"sampling scheme {name}: it takes no weights of records")
    try:
        draws = scheme.draw(population, epoch, Chance(seed, epoch))
    except errors.InvalidArgumentError:
        raise
    except Exception as error:  # of others' code it may be any
        said = plain(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {plain(error)}"
        raise errors.InvalidArgumentError(f"sampling scheme {name}, epoch {epoch}: {said}") from error

    def wrong(what: str) -> errors.InvalidArgumentError:
        return errors.InvalidArgumentError(f"sampling scheme {name}, epoch {epoch}: {what}")

    if not isinstance(draws, Draws):
        raise wrong(f"draw() gave {type(draws).__name__}, not Draws")
    shards = _numbers(draws.shards)
    if shards is None:
        raise wrong("its shards are not a list of whole numbers")
    if not len(shards):
        raise wrong(f"0 draws; an epoch has 1 to {MOST_DRAWS}")
    if len(shards) > MOST_DRAWS:
        raise wrong(too_many_draws(len(shards)))
    outside = np.flatnonzero((shards < 0) | (shards >= population.shards))
    if len(outside):
        at = int(outside[0])
        raise wrong(f"draw {at} is of shard {shards[at]}; the data set has shards 0 to {population.shards - 1}")
    ends = _ends(draws.stage_ends, len(shards))
    if ends is None:
        raise wrong(f"stage_ends must rise to the number of draws, {len(shards)}, in at most {MOST_STAGES} stages")
    if draws.in_turn and len(ends) > 1:
        raise wrong("in_turn is without stages")
    if not getattr(scheme, "repeats", True):
        numbers, counts = np.unique(shards, return_counts=True)
        if len(numbers) < len(shards):
            raise wrong(f"shard {numbers[np.argmax(counts > 1)]} is drawn twice, which it says it never is")
    ordered = shards.astype(np.uint32)
    if not draws.in_turn:
        for start, end in zip((0, *ends), ends, strict=False):
            ordered[start:end].sort()
    if draws.picks and (trouble := _wrong_picks(draws.picks, ordered, population)):
        raise wrong(trouble)
    records = int(population.records[ordered].sum(dtype=np.uint64))
    return DrawnShards(name, ordered, ends, draws.in_turn, records, draws.picks)


def _wrong_picks(picks: RecordPicks, shards: npt.NDArray[np.uint32], population: Population) -> str:
    if population.weights is None or picks.weights_id != population.weights.weights_id:
        return "it picks records by other weights than it was given"
    try:
        record_picks(picks.message())
    except (errors.ProtocolError, ValueError) as error:
        return str(error)
    largest = int(shards[np.argmax(population.records[shards])])
    if picks.pick_bytes(int(population.records[largest])) > MOST_PICK_BYTES:
        return (
            f"shard {largest} has {many(int(population.records[largest]), 'record')}, of which none can be picked "
            f"in {picks.planes} "
            f"planes: at most {8 * MOST_PICK_BYTES // picks.planes}. Cut smaller shards (FirstUse(cut=))"
        )
    return ""


def _numbers(given: npt.ArrayLike) -> npt.NDArray[np.int64] | None:
    try:
        numbers = np.asarray(given)
    except (ValueError, TypeError):  # ragged, for example
        return None
    if numbers.ndim != 1 or (numbers.dtype.kind not in "iu" and len(numbers)):
        return None
    if numbers.dtype == np.uint64 and len(numbers) and numbers.max() > np.iinfo(np.int64).max:
        return None
    return numbers.astype(np.int64)


def _ends(given: Sequence[int] | None, draws: int) -> tuple[int, ...] | None:
    if given is None:
        return (draws,)
    numbers = _numbers(given)
    if numbers is None:
        return None
    ends = tuple(map(int, numbers[: MOST_STAGES + 1]))
    return ends if are_stages(ends, draws) else None
