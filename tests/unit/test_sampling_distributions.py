"""Each scheme's draws against its definition, by chi-square and Kolmogorov-Smirnov tests.

All is drawn from fixed seeds, so that no test fails by chance. Each says what it would notice: the power against a
scheme that is off by so much is computed and asserted, and schemes that are so wrong are refused.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pytest

from tfquiver.service.coordinator.sampling_by_weights_or_with_replacement.class_balanced import ClassBalanced
from tfquiver.service.coordinator.sampling_by_weights_or_with_replacement.weighted import Weighted
from tfquiver.service.coordinator.sampling_by_weights_or_with_replacement.with_replacement import WithReplacement
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.chance import Chance
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.curriculum import Curriculum
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.drawing import drawn
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.interface import Draws, Population, Scheme
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.reservoir import Reservoir

ALPHA = 1e-4  # of a right scheme's being refused, were the seeds drawn anew
POWER = 0.999
SEED = 20260101
Floats = npt.NDArray[np.float64]


def population(records: Sequence[int], shards_of_files: Sequence[int]) -> Population:
    files = [f"gs://bucket/data/part-{place}.tfrecord" for place in range(len(shards_of_files))]
    file_of = np.repeat(np.arange(len(shards_of_files)), shards_of_files).astype(np.uint32)
    return Population(np.array(records, np.uint32), np.array(records, np.uint64) * 100, file_of, files)


EVEN = population([10] * 50, [10] * 5)
UNEVEN = population([1 + shard % 7 * 5 for shard in range(60)], [6, 12, 18, 24])
WEIGHTS = (1.0, 2.0, 0.0, 4.0, 8.0)
FILES = [[f"part-{place}.*", weight] for place, weight in enumerate(WEIGHTS)]


def counted(scheme: Scheme, of: Population, epochs: int) -> Floats:
    """How often each shard was drawn."""
    counts = np.zeros(of.shards)
    for epoch in range(epochs):
        counts += np.bincount(drawn("scheme", scheme, of, SEED, epoch).shards, minlength=of.shards)
    return counts


def p_value(counts: Floats, shares: Floats) -> float:
    """Of the chi-square test that draws are of each with these shares; those without a share must have none."""
    from scipy import stats

    shares = shares / shares.sum()
    assert not counts[shares == 0].any(), "drawn, although it has no share"
    some = shares > 0
    return float(stats.chisquare(counts[some], shares[some] * counts.sum()).pvalue)


def power(draws: float, shares: Floats, others: Floats) -> float:
    """Of that test where the true shares are the others."""
    from scipy import stats

    shares, others = shares / shares.sum(), others / others.sum()
    some = shares > 0
    effect = float((((others - shares) ** 2)[some] / shares[some]).sum())
    degrees = int(some.sum()) - 1
    return float(stats.ncx2.sf(stats.chi2.ppf(1 - ALPHA, degrees), degrees, draws * effect))


def shares_of_files(of: Population, weights: Sequence[float]) -> Floats:
    return np.array(weights)[of.file_of]


@pytest.mark.slow
def test_chance_is_uniform_and_the_same_in_every_version() -> None:
    from scipy import stats

    assert Chance(7, 0).uniform(3).tolist() == pytest.approx(
        [0.7215081806049702, 0.6497043364684557, 0.5493743249193239], abs=1e-15
    )
    assert stats.kstest(Chance(SEED, 3).uniform(20_000), "uniform").pvalue > ALPHA
    both = Chance(1, 1)
    assert np.concatenate([both.uniform(5), both.uniform(7)]).tolist() == Chance(1, 1).uniform(12).tolist()
    assert Chance(1, 0).of_epoch(1).uniform(4).tolist() == Chance(1, 1).uniform(4).tolist()
    apart = np.corrcoef(Chance(SEED, 1).uniform(5000), Chance(SEED, 2).uniform(5000))[0, 1]
    assert abs(apart) < 4 / np.sqrt(5000)


@pytest.mark.slow
def test_weighted_draws_as_the_weights_say() -> None:
    counts = counted(Weighted(files=FILES), EVEN, 3000)
    shares = shares_of_files(EVEN, WEIGHTS)
    assert p_value(counts, shares) > ALPHA
    off = shares_of_files(EVEN, [1.0, 2.2, 0.0, 4.0, 8.0])  # one file's weight by a tenth
    assert power(counts.sum(), shares, off) > POWER


@pytest.mark.slow
def test_weighted_draws_that_are_wrong_by_a_tenth_are_refused() -> None:
    files = [[pattern, weight * (1.1 if place == 1 else 1.0)] for place, (pattern, weight) in enumerate(FILES)]
    assert p_value(counted(Weighted(files=files), EVEN, 3000), shares_of_files(EVEN, WEIGHTS)) < ALPHA


@pytest.mark.slow
def test_weights_of_shards_are_those_of_records_whatever_the_shards_sizes() -> None:
    weights = [1.0 + shard % 3 for shard in range(UNEVEN.shards)]
    counts = counted(Weighted(shards=weights), UNEVEN, 300)
    assert p_value(counts, np.array(weights)) > ALPHA
    by_size = np.array(weights) * UNEVEN.records  # as if shards were drawn by their records
    assert power(counts.sum(), np.array(weights), by_size) > POWER


@pytest.mark.parametrize("epoch_share", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("of", [EVEN, UNEVEN])
def test_an_epoch_has_as_many_records_as_it_is_said_to(of: Population, epoch_share: float) -> None:
    from scipy import stats

    weights: list[object] = [float(1 + shard % 4) for shard in range(of.shards)]
    schemes: list[Scheme] = [
        Weighted(shards=weights, epoch_share=epoch_share),
        WithReplacement(epoch_share),
        ClassBalanced({"a": ["part-0*"], "b": ["*"]}, epoch_share),
    ]
    for scheme in schemes:
        records = [drawn("scheme", scheme, of, SEED, epoch).records for epoch in range(100)]
        error = stats.sem(records) * 4 + of.records.max()  # the number of draws is whole
        assert abs(np.mean(records) - epoch_share * of.all_records) < error


def test_with_replacement_each_draw_is_of_any_shard() -> None:
    counts = counted(WithReplacement(), UNEVEN, 1500)
    assert p_value(counts, np.ones(UNEVEN.shards)) > ALPHA
    assert power(counts.sum(), np.ones(UNEVEN.shards), 1 + 0.1 * (np.arange(UNEVEN.shards) % 2)) > POWER


def _multiplicities(scheme: Scheme, epochs: int) -> Floats:
    """How many shards were drawn 0, 1, 2, 3 and more times in an epoch."""
    found = np.zeros(4)
    for epoch in range(epochs):
        counts = np.bincount(drawn("scheme", scheme, EVEN, SEED, epoch).shards, minlength=EVEN.shards)
        found += np.bincount(np.minimum(counts, 3), minlength=4)
    return found


class Without:
    """As many of each as of any other, but none twice."""

    def draw(self, population: Population, epoch: int, chance: Chance) -> Draws:
        return Draws(chance.shuffled(population.shards))


def test_with_replacement_draws_are_independent_of_each_other() -> None:
    from scipy import stats

    draws = stats.binom(EVEN.shards, 1 / EVEN.shards)
    expected = np.array([draws.pmf(0), draws.pmf(1), draws.pmf(2), draws.sf(2)])
    # In one epoch they are not independent of each other: their number is fixed, which makes this test refuse less.
    assert p_value(_multiplicities(WithReplacement(), 100), expected) > ALPHA
    assert p_value(_multiplicities(Without(), 100), expected) < ALPHA


@pytest.mark.slow
def test_class_balanced_has_of_each_class_the_same() -> None:
    classes = {"rare": ["part-0.*"], "some": ["part-1.*"], "many": ["part-2.*", "part-3.*"]}
    counts = counted(ClassBalanced(classes), UNEVEN, 1500)
    class_of = np.array([0, 1, 2, 2])[UNEVEN.file_of]
    records = np.bincount(class_of, UNEVEN.records)
    assert p_value(counts, 1.0 / records[class_of]) > ALPHA
    assert power(counts.sum(), 1.0 / records[class_of], np.array([1.1, 1.0, 1.0])[class_of] / records[class_of]) > POWER
    assert p_value(counted(WithReplacement(), UNEVEN, 1500), 1.0 / records[class_of]) < ALPHA
    of_classes = np.bincount(class_of, counts * UNEVEN.records)
    assert of_classes / of_classes.sum() == pytest.approx([1 / 3] * 3, abs=0.02)


PACING = {"starting_part": 0.1, "growth": 2.0, "step_epochs": 0.5}


@pytest.mark.slow
@pytest.mark.parametrize("replacement", [True, False])
def test_a_curriculum_draws_from_the_first_part_each_as_likely_as_any_other(replacement: bool) -> None:
    scheme = Curriculum(PACING, replacement)
    shown = [0.1, 0.2, 0.4, 0.8, 1.0]
    for step, part in enumerate(shown):
        epoch, half = divmod(step, 2)
        counts = np.zeros(EVEN.shards)
        for seed in range(300):
            made = drawn("curriculum", scheme, EVEN, seed, epoch)
            # Two steps an epoch, of 250 records each; what shows no more than the one before is no step.
            assert made.stage_ends == ((25, 50) if epoch < 2 else (50,))
            first = 25 * half
            counts += np.bincount(made.shards[first : first + made.stage_ends[0]], minlength=EVEN.shards)
        inside = (np.arange(EVEN.shards) < part * EVEN.shards).astype(float)
        if replacement or made.stage_ends[0] % int(inside.sum()):
            assert p_value(counts, inside) > ALPHA
        else:
            assert (counts[inside > 0] == counts[0]).all()
            assert not counts[inside == 0].any()
        longer = (np.arange(EVEN.shards) < part * EVEN.shards + 1).astype(float)
        assert longer.sum() == EVEN.shards + (part == 1.0) or not counts[longer > inside].any()


def test_a_curriculum_is_uniform_in_stored_order() -> None:
    """Not only by shards: places in stored order are uniform up to the part that is shown."""
    from scipy import stats

    many = population([3] * 2000, [500] * 4)
    places = np.concatenate([
        drawn("curriculum", Curriculum([[0, 0.3]]), many, seed, 0).shards for seed in range(10)
    ])  # fmt: skip
    between = (places + Chance(1, 1).uniform(len(places))) / 600
    assert stats.kstest(between, "uniform").pvalue > ALPHA
    easier = np.sort(between) ** 1.05  # a twentieth easier
    assert stats.kstest(easier, "uniform").pvalue < ALPHA


def test_a_curriculum_without_replacement_has_none_again_before_all_others_have_come() -> None:
    made = drawn("curriculum", Curriculum([[0, 0.3]], replacement=False), EVEN, SEED, 0)
    counts = np.bincount(made.shards, minlength=EVEN.shards)
    assert set(counts[:15]) == {3, 4}
    assert not counts[15:].any()


@pytest.mark.slow
def test_a_reservoir_is_any_subset_as_likely_as_any_other() -> None:
    small = population([10] * 6, [6])
    subsets = {subset: place for place, subset in enumerate(itertools.combinations(range(6), 3))}
    counts = np.zeros(len(subsets))
    for epoch in range(4000):
        made = drawn("reservoir", Reservoir(30), small, SEED, epoch)
        assert made.in_turn
        counts[subsets[tuple(made.shards.tolist())]] += 1
    assert p_value(counts, np.ones(len(subsets))) > ALPHA
    assert power(4000, np.ones(20), 1 + 0.4 * (np.arange(20) == 0) * 2) > POWER


class FirstOfBlock:
    """Each shard as likely as any other, but not each subset: one of each pair."""

    def draw(self, population: Population, epoch: int, chance: Chance) -> Draws:
        return Draws(2 * np.arange(population.shards // 2) + chance.below(2, population.shards // 2), in_turn=True)


@pytest.mark.slow
def test_subsets_that_are_not_all_as_likely_are_refused() -> None:
    small = population([10] * 6, [6])
    subsets = {subset: place for place, subset in enumerate(itertools.combinations(range(6), 3))}
    counts = np.zeros(len(subsets))
    for epoch in range(4000):
        counts[subsets[tuple(drawn("blocks", FirstOfBlock(), small, SEED, epoch).shards.tolist())]] += 1
    assert p_value(counts, np.ones(len(subsets))) < ALPHA


def test_a_reservoir_that_is_not_drawn_again_stays() -> None:
    always = [drawn("reservoir", Reservoir(100, redraw=False), EVEN, SEED, epoch).shards.tolist() for epoch in range(3)]
    assert always[0] == always[1] == always[2]
    other = drawn("reservoir", Reservoir(100), EVEN, SEED, 1).shards.tolist()
    assert other != always[0]
    assert len(other) == len(always[0]) == 10


@pytest.mark.parametrize(
    "make",
    [lambda: Weighted(files=FILES), WithReplacement, lambda: Curriculum(PACING), lambda: Reservoir(200)],
)
def test_the_same_seed_and_epoch_draw_the_same_and_no_others(make: Callable[[], Scheme]) -> None:
    first = drawn("scheme", make(), EVEN, 5, 7)
    assert drawn("scheme", make(), EVEN, 5, 7).shards.tolist() == first.shards.tolist()
    for seed, epoch in ((6, 7), (5, 8)):
        assert drawn("scheme", make(), EVEN, seed, epoch).shards.tolist() != first.shards.tolist()
