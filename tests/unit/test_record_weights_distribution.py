"""Records drawn by weights of their own, against what the scheme promises: chi-square tests, each with its power.

All is drawn from fixed seeds; what is as wrong as a test says it would notice is refused by it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.sampled import counts_of
from tests.unit.test_sampling_distributions import ALPHA, POWER, SEED, p_value, population, power
from tfquiver import errors
from tfquiver.messages_and_binary_formats.record_picks import RecordPicks
from tfquiver.messages_and_binary_formats.record_weights import checked_values, record_weights
from tfquiver.service.coordinator.sampling_by_weights_or_with_replacement import draw_planes
from tfquiver.service.coordinator.sampling_by_weights_or_with_replacement.weighted import Weighted
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs import smallest_keys
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.drawing import drawn
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.interface import Population

Floats = npt.NDArray[np.float64]
EPOCHS = 1500
RECORDS = [1 + shard % 7 * 5 for shard in range(20)]


def weighed(records: Sequence[int], weights: npt.ArrayLike) -> Population:
    plain = population(records, [len(records)])
    values = record_weights(b"r" * 32, checked_values("weights", weights))
    return Population(plain.records, plain.lengths, plain.file_of, plain.files, values)


def some_weights(records: int) -> Floats:
    """Of three sizes, and a tenth of them 0."""
    return np.array([0.0 if record % 10 == 9 else (1.0, 3.0, 10.0)[record % 3] for record in range(records)])


def draws_of_shards_and_records(of: Population, copies: int, epochs: int = EPOCHS) -> tuple[Floats, Floats]:
    shards, records = np.zeros(of.shards), np.zeros(of.all_records)
    for epoch in range(epochs):
        made = drawn("weighted", Weighted(records="", copies=copies), of, SEED, epoch)
        shards += np.bincount(made.shards, minlength=of.shards)
        records += counts_of(made, of)
    return shards, records


def accepted_p_value(of: Population, weights: Floats, shards: Floats, records: Floats, copies: int) -> float:
    """That each draw of a shard has each of its records with the chance weight / largest, in each plane: given how
    often the shards were drawn, counts are binomial and independent."""
    from scipy import stats

    shard_of = np.repeat(np.arange(of.shards), of.records)
    trials = copies * shards[shard_of]
    largest = np.array([weights[shard_of == shard].max(initial=0.0) for shard in range(of.shards)])
    chance = np.divide(weights, largest[shard_of], out=np.zeros_like(weights), where=largest[shard_of] > 0)
    assert (records[chance == 1] == trials[chance == 1]).all(), "the heaviest of a shard is in each draw"
    assert not records[chance == 0].any(), "drawn, although its weight is 0"
    some = (chance > 0) & (chance < 1)
    deviation = (records - trials * chance)[some] ** 2 / (trials * chance * (1 - chance))[some]
    return float(stats.chi2.sf(deviation.sum(), some.sum()))


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("copies", [1, 5])
def test_records_come_as_their_weights_say(copies: int) -> None:
    from scipy import stats

    weights = some_weights(sum(RECORDS))
    of = weighed(RECORDS, weights)
    shards, records = draws_of_shards_and_records(of, copies)
    before = of.records_before
    largest = np.array([
        weights[before[shard] : before[shard + 1]].max(initial=0.0) for shard in range(of.shards)
    ])  # fmt: skip
    assert p_value(shards, largest) > ALPHA
    assert power(shards.sum(), largest, largest * (1 + 0.2 * (np.arange(of.shards) % 2))) > POWER
    assert accepted_p_value(of, weights, shards, records, copies) > ALPHA
    light = weights == 3  # if one weight of three was off by a twentieth
    off = np.where(light, weights * 1.05, weights)
    chances = 0.3 * copies * shards.mean() * light.sum() / 0.7
    assert stats.ncx2.sf(stats.chi2.ppf(1 - ALPHA, of.all_records), of.all_records, 0.05**2 * chances) > POWER
    assert accepted_p_value(weighed(RECORDS, off), off, shards, records, copies) < ALPHA
    told = drawn("weighted", Weighted(records="", copies=copies), of, SEED, 0).picks
    assert told is not None
    assert told.records == pytest.approx(of.all_records, rel=0.05)  # the number of draws is whole
    assert records.sum() / EPOCHS == pytest.approx(told.records, rel=0.01)
    assert np.corrcoef(records, weights)[0, 1] > 0.995


@pytest.mark.slow
def test_records_of_a_shard_are_drawn_independently_of_each_other_and_of_other_draws() -> None:
    from scipy import stats

    of = weighed([2] * 2, [1.0, 0.5, 0.5, 1.0])
    picked = np.stack([picked_bits(of, 4000, epoch)[:, 1] for epoch in (0, 1)])
    assert picked.shape == (2, 4000)
    for one, other in (
        (picked[0], picked[1]),
        (picked[0, :-1], picked[0, 1:]),
    ):  # epochs, and draws one after the other
        table = np.array([[np.sum((one == a) & (other == b)) for b in (0, 1)] for a in (0, 1)])
        assert stats.chi2_contingency(table).pvalue > ALPHA
    many = weighed([60], np.where(np.arange(60) == 0, 1.0, 0.5))
    assert many.weights is not None
    bits = picked_bits(many, 3000)[:, 1:]
    pairs = np.corrcoef(bits.T)[np.triu_indices(59, 1)]
    assert stats.kstest(pairs * np.sqrt(3000), "norm").pvalue > ALPHA
    # Of records that come together with a chance of only a tenth more than they should it would be seen.
    together = np.where(np.arange(3000)[:, None] % 10 == 0, bits[:, :1], bits)
    assert stats.kstest(np.corrcoef(together.T)[np.triu_indices(59, 1)] * np.sqrt(3000), "norm").pvalue < ALPHA


def picked_bits(of: Population, draws: int, epoch: int = 0) -> Floats:
    """Which records of the first shard each draw has, were all of it, shape [draws, records]."""
    made = drawn("w", Weighted(records=""), of, SEED, epoch)
    assert made.picks is not None
    assert of.weights is not None
    values = of.weights.values[: of.records[0]]
    raw = [np.frombuffer(draw_planes.planes(made.picks, values, draw, 0), np.uint8) for draw in range(draws)]
    return np.unpackbits(np.stack(raw), axis=1, bitorder="little")[:, : len(values)].astype(float)


def successive(weights: Sequence[float], count: int) -> dict[tuple[int, ...], float]:
    """Chance of each subset when one after the other is drawn by weight and not put back."""
    chances: dict[tuple[int, ...], float] = {}
    for order in itertools.permutations(range(len(weights)), count):
        chance, left = 1.0, sum(weights)
        for record in order:
            chance, left = chance * weights[record] / left, left - weights[record]
        subset = tuple(sorted(order))
        chances[subset] = chances.get(subset, 0.0) + chance
    return chances


SMALL = [1.0, 2.0, 3.0, 1.0, 4.0, 6.0]


def subsets_drawn(epochs: int) -> dict[tuple[int, ...], int]:
    of = weighed([1, 3, 0, 2], SMALL)
    found: dict[tuple[int, ...], int] = {}
    for epoch in range(epochs):
        made = drawn("weighted", Weighted(records="", replacement=False, epoch_share=0.5), of, SEED, epoch)
        counts = counts_of(made, of)
        assert counts.max() == 1
        assert counts.sum() == 3
        assert len(set(made.shards.tolist())) == len(made.shards)
        subset = tuple(np.flatnonzero(counts).tolist())
        found[subset] = found.get(subset, 0) + 1
    return found


@pytest.mark.slow
@pytest.mark.long
def test_without_replacement_subsets_are_those_of_one_draw_after_the_other() -> None:
    chances, found = successive(SMALL, 3), subsets_drawn(6000)
    shares, counts = np.array([*chances.values()]), np.array([found.get(subset, 0) for subset in chances], float)
    assert p_value(counts, shares) > ALPHA
    # A subset as likely as the product of its weights, as if all with a record twice had been thrown away: refused.
    products = np.array([np.prod([SMALL[record] for record in subset]) for subset in chances])
    assert power(6000, products, shares) > POWER
    assert p_value(counts, products) < ALPHA
    heavier = np.array([*successive([*SMALL[:5], 8.0], 3).values()])  # one weight off by a third
    assert power(6000, heavier, shares) > POWER
    assert p_value(counts, heavier) < ALPHA


@pytest.mark.parametrize("share", [0.001, 0.25, 0.9])
def test_without_replacement_an_epoch_is_just_so_many(monkeypatch: pytest.MonkeyPatch, share: float) -> None:
    from scipy import stats

    monkeypatch.setattr(smallest_keys, "AT_ONCE", 777)  # in many parts, which meet inside shards
    weights = stats.lognorm(3).rvs(5000, random_state=1) * (np.arange(5000) % 11 > 0)
    of = weighed([50] * 100, weights)
    made = drawn("weighted", Weighted(records="", replacement=False, epoch_share=share), of, SEED, 0)
    counts = counts_of(made, of)
    assert made.picks is not None
    assert counts.sum() == made.picks.records == round(share * 5000)
    assert not counts[weights == 0].any()
    assert of.weights is not None
    every = smallest_keys.keys(made.picks.seed, of.weights.values, 0)
    assert np.flatnonzero(counts).tolist() == np.sort(np.argsort(every)[: counts.sum()]).tolist()


def test_all_that_have_a_weight_can_be_asked_for_and_no_more() -> None:
    of = weighed([5, 5], [1.0] * 8 + [0.0] * 2)
    made = drawn("weighted", Weighted(records="", replacement=False, epoch_share=0.8), of, SEED, 0)
    assert counts_of(made, of).tolist() == [1] * 8 + [0] * 2
    with pytest.raises(errors.InvalidArgumentError, match="9 records without replacement; 8 have weights above 0"):
        drawn("weighted", Weighted(records="", replacement=False, epoch_share=0.9), of, SEED, 0)


def test_what_is_picked_is_the_same_in_every_version() -> None:
    values = checked_values("weights", [1.0, 0.25, 0.5, 0.0, 3.0])
    assert smallest_keys.keys(5, values, 100).tolist() == pytest.approx(
        [0.8213973951353061, 3.094483650530343, 0.31684115785937617, np.inf, 0.0813673043152503], rel=1e-14
    )
    picks = RecordPicks(b"w" * 32, 5, 2, 0.0, 0)
    assert draw_planes.planes(picks, values, 17, 100).hex() == "1111"


def test_a_negative_zero_is_a_weight_of_0() -> None:
    """-log(1) is one."""
    values = np.where(np.arange(1000) % 10, np.float32(-0.0), np.float32(1.0)).astype(np.float32)
    found = smallest_keys.keys(7, values, 0)
    assert np.isinf(found[values == 0]).all()
    assert (found[values == 0] > 0).all()
