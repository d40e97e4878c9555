"""What schemes of others are given where a user has weights of records, and in which memory epochs are drawn."""

from __future__ import annotations

import itertools
import tracemalloc
from typing import Any

import numpy as np
import pytest

import tfquiver
from tests.support.sampled import counts_of
from tests.unit.test_record_weights_distribution import weighed
from tests.unit.test_sampling_distributions import ALPHA, POWER, SEED, population
from tfquiver import errors
from tfquiver.messages_and_binary_formats.record_picks import RecordPicks
from tfquiver.messages_and_binary_formats.record_weights import checked_values
from tfquiver.service.coordinator.sampling_by_weights_or_with_replacement.weighted import Weighted
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs import interface, smallest_keys
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.chance import Chance
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.drawing import drawn
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.interface import Draws, Population

RECORDS = [3, 0, 10, 1, 50, 7]
WEIGHTS = np.array([0.0 if record % 5 == 4 else (1.0, 2.0, 7.0)[record % 3] for record in range(sum(RECORDS))])


class Each:
    """Each shard once, of its records those that are picked."""

    takes_weights = True

    def __init__(self, copies: Any = 1) -> None:
        self.copies = copies

    def draw(self, population: Population, epoch: int, chance: Chance) -> Draws:
        shards = np.arange(population.shards)
        return Draws(shards, picks=population.picks(shards, chance, self.copies))


@pytest.mark.parametrize("at_once", [1, 8, 1 << 20])
def test_a_scheme_is_given_weights_of_records_and_what_they_come_to_of_shards(
    monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(interface, "AT_ONCE", at_once)
    of = weighed(RECORDS, WEIGHTS)
    of_shards = np.split(WEIGHTS, np.cumsum(RECORDS)[:-1])
    assert of.record_weights.tolist() == WEIGHTS.tolist()
    assert of.largest_weights.tolist() == [one.max(initial=0.0) for one in of_shards]
    assert of.weight_sums.tolist() == [one.sum() for one in of_shards]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("copies", [1, 3])
def test_records_are_picked_as_the_weights_say(copies: int) -> None:
    from scipy import stats

    of, epochs = weighed(RECORDS, WEIGHTS), 3000
    counts = sum(counts_of(drawn("each", Each(copies), of, SEED, epoch), of) for epoch in range(epochs))
    largest = np.repeat(of.largest_weights, RECORDS)
    chance = np.divide(WEIGHTS, largest, out=np.zeros(len(WEIGHTS)), where=largest > 0)
    trials, some = copies * epochs, (chance > 0) & (chance < 1)

    def p_value(chances: np.ndarray[Any, Any]) -> float:
        away = (counts - trials * chances)[some] ** 2 / (trials * chances * (1 - chances))[some]
        return float(stats.chi2.sf(away.sum(), some.sum()))

    assert (counts[chance == 1] == trials).all()
    assert not counts[chance == 0].any()
    assert p_value(chance) > ALPHA
    off = chance * 1.07  # a fourteenth more would be refused, with that power
    away = ((off - chance) ** 2 * trials / (chance * (1 - chance) + (chance == 0) + (chance == 1)))[some].sum()
    assert stats.ncx2.sf(stats.chi2.ppf(1 - ALPHA, some.sum()), some.sum(), away) > POWER
    assert p_value(np.where(some, off, chance)) < ALPHA
    told = drawn("each", Each(copies), of, SEED, 0).picks
    assert told is not None
    assert told.records == pytest.approx(counts.sum() / epochs, rel=0.02)


def test_weights_that_nobody_gave_and_weights_that_nobody_takes() -> None:
    plain = population(RECORDS, [len(RECORDS)])
    for of, scheme, what in (
        (plain, Each(), "sampling scheme s, epoch 0: weights: none of records were given"),
        (weighed(RECORDS, WEIGHTS), Weighted(shards=[1.0] * 6), "sampling scheme s: it takes no weights of records"),
        (weighed(RECORDS, WEIGHTS[1:]), Each(), f"weights: {len(WEIGHTS) - 1} of records; the data set has"),
        (weighed(RECORDS, WEIGHTS), Each(65), "copies=65: must be a whole number from 1 to 64"),
        (weighed(RECORDS, WEIGHTS), Each(True), "copies=True: must be"),
        (weighed(RECORDS, WEIGHTS), Each(1.5), "copies=1.5: must be"),
    ):
        with pytest.raises(errors.InvalidArgumentError, match=what):
            drawn("s", scheme, of, SEED, 0)


def test_a_user_gives_them_to_any_scheme_as_an_array_or_a_file(tmp_path: Any) -> None:
    np.save(tmp_path / "w.npy", WEIGHTS)
    given = tfquiver.Sampling("each", weights=WEIGHTS)
    assert given == tfquiver.Sampling("each", weights=tmp_path / "w.npy")
    assert given != tfquiver.Sampling("each", weights=WEIGHTS + 1)
    found = given.record_weights()
    assert found is not None
    assert found.values.tolist() == WEIGHTS.tolist()
    apart = {
        one.told_apart_by()
        for one in (given, tfquiver.Sampling("each"), tfquiver.Sampling("each", weights=WEIGHTS + 1))
    }
    assert len(apart) == 3
    for wrong in ([1.0], {"a": 1.0}, 5):
        with pytest.raises(errors.InvalidArgumentError, match=r"weights=.*: must be an array or a file"):
            tfquiver.Sampling("each", weights=wrong)  # type: ignore[arg-type]


def most_key_at_once(seed: int, values: Any, count: int) -> float:
    """Of all keys together."""
    every = np.sort(smallest_keys.keys(seed, values, 0))
    last, after = every[count - 1], every[count] if count < len(every) else np.inf
    return float(last * (1 + 2.0**-40) if np.isinf(after) else last + (after - last) / 2)


@pytest.mark.parametrize("zeros", [0.0, 0.9])
def test_the_limit_of_keys_in_parts_is_that_of_all_together(monkeypatch: pytest.MonkeyPatch, zeros: float) -> None:
    from scipy import stats

    monkeypatch.setattr(smallest_keys, "AT_ONCE", 1000)
    rng = np.random.default_rng(3)
    for weights in (rng.random(5001), np.ones(5001), stats.lognorm(4).rvs(5001, random_state=2), np.full(5001, 1e-44)):
        values = checked_values("w", np.where(rng.random(5001) < zeros, 0.0, weights))
        some = int(np.count_nonzero(values))
        before = np.concatenate(([0, 0], np.cumsum(rng.multinomial(5001, np.full(200, 1 / 200))), [5001]))
        for count in (1, 2, some // 3, some - 1, some):
            key = smallest_keys.most_key(7, values, count)
            assert key == most_key_at_once(7, values, count)
            picked = smallest_keys.keys(7, values, 0) <= key
            assert picked.sum() == count
            found = smallest_keys.picked_of_shards(RecordPicks(b"w" * 32, 7, 1, key, count), values, before)
            assert found.tolist() == [int(picked[a:b].sum()) for a, b in itertools.pairwise(before)]


@pytest.mark.slow
def test_an_epoch_without_replacement_is_drawn_in_less_memory_than_the_weights_take_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(smallest_keys, "AT_ONCE", 1 << 14)
    values = np.where(np.arange(2_000_000) % 10, 0, 1).astype(np.float32)  # all that are above 0 are asked for
    values[::10] += np.random.default_rng(1).random(200_000, np.float32)
    before = np.arange(0, 2_000_001, 100)
    tracemalloc.start()
    try:
        key = smallest_keys.most_key(7, values, 200_000)
        assert tracemalloc.get_traced_memory()[1] < values.nbytes
        tracemalloc.reset_peak()
        found = smallest_keys.picked_of_shards(RecordPicks(b"w" * 32, 7, 1, key, 200_000), values, before)
        assert tracemalloc.get_traced_memory()[1] < values.nbytes
    finally:
        tracemalloc.stop()
    assert found.tolist() == [10] * 20_000


def test_shards_in_any_order_are_those_of_the_order_drawn() -> None:
    weights = np.random.default_rng(1).random(1000) * (np.arange(1000) % 3 > 0)
    one, other = (Chance(5, 1).weighted(weights, 50_000, any_order=sort) for sort in (False, True))
    assert np.sort(one).tolist() == other.tolist()
    assert one.tolist() != other.tolist()


@pytest.mark.slow
def test_more_shards_than_the_largest_data_set_of_the_design_has_are_drawn_and_too_many_refused_with_what_to_do() -> (
    None
):
    shards = 5_000_000
    of = Population(np.ones(shards, np.uint32), np.ones(shards, np.uint64), np.zeros(shards, np.uint32), ["file:///a"])

    class All:
        repeats = False

        def draw(self, population: Population, epoch: int, chance: Chance) -> Draws:
            return Draws(np.arange(population.shards))

    made = drawn("all", All(), of, SEED, 0)
    assert len(made.shards) == shards
    assert made.message().ByteSize() < 1 << 20
    one_large = Population(np.array([1 << 30, 1], np.uint32), *few_lengths(), ["file:///a"])
    with pytest.raises(
        errors.InvalidArgumentError, match=r"an epoch has 1 to \d+: draw fewer \(a smaller epoch_share="
    ):
        drawn("w", Weighted(shards=[0.0, 1.0], epoch_share=100.0), one_large, SEED, 0)


def few_lengths() -> tuple[Any, Any]:
    return np.ones(2, np.uint64), np.zeros(2, np.uint32)
