"""Ranks that are hardly fewer than the shards, or batches, of their data: each has its share, or is told why not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import tfquiver
from tests.support import numbered
from tests.support.daemons import cache_dir_fixture
from tests.support.torch_jobs import Job, count
from tfquiver import errors

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install '.[torch]'")
pytest.importorskip("torchdata", reason="torchdata is not installed: pip install '.[torch]'")
quiver = pytest.importorskip("tfquiver.torch")
shares = pytest.importorskip("tfquiver.torch.shares")
positions = pytest.importorskip("tfquiver.torch.positions")

FILES, RECORDS, RECORD_BYTES = 4, 200, 300
TOTAL = FILES * RECORDS
EVERYTHING = Counter(range(TOTAL))
A_FILE = (1 << 20, 1 << 62, 1 << 62)  # is a shard
paths = numbered.fixture(FILES, RECORDS, RECORD_BYTES)
cache_dir = cache_dir_fixture()


def amounts(shards: int, records: int, batch_size: int = 1, drop_remainder: bool = False) -> Any:
    return shares.Amounts(shards, records, 100 * records, batch_size, drop_remainder)


def of_all(of: Any, ranks: int, workers: int) -> list[list[list[int]]]:
    """Of each rank and worker the shards."""
    found = []
    for rank in range(ranks):
        settled = [shares.settled(of, rank, ranks, worker, workers) for worker in range(workers)]
        found.append([list(range(share.reader, of.shards, share.readers)) for share in settled])
    return found


@pytest.mark.parametrize(("shards", "ranks", "workers"), [(2, 2, 0), (5, 2, 3), (7, 4, 2), (9, 1000, 1), (31, 2, 2)])
def test_every_shard_is_somebodys_and_every_rank_has_one(shards: int, ranks: int, workers: int) -> None:
    ranks = min(ranks, shards)
    found = of_all(amounts(shards, 1 << 40), ranks, max(1, workers))
    assert sorted(shard for rank in found for worker in rank for shard in worker) == list(range(shards))
    each = [sum(map(len, rank)) for rank in found]
    assert max(each) - min(each) <= 1, "no rank has two more than another"
    assert all(rank[0] for rank in found)


def test_of_much_data_readers_read_what_they_ask_for() -> None:
    assert shares.settled(amounts(32, 1 << 40), 0, 2, 0, 2) is None
    assert shares.settled(amounts(31, 1 << 40), 0, 2, 0, 2) is not None
    assert shares.settled(amounts(32, 128 * 256, 256), 0, 2, 0, 2) is None
    assert shares.settled(amounts(32, 128 * 256 - 1, 256), 0, 2, 0, 2) is not None, "DataLoader fetches batches ahead"
    assert shares.settled(amounts(1, 1), 0, 1, 0, 8) is None, "nobody waits for a rank"


def test_as_many_workers_read_as_have_a_whole_batch() -> None:
    """Of 1000 records a rank has 500, four workers of it 125 each."""
    found = of_all(amounts(64, 1000, 200, drop_remainder=True), 2, 4)
    assert [[len(worker) for worker in rank] for rank in found] == [[32, 0, 0, 0]] * 2
    found = of_all(amounts(64, 1000, 200), 2, 4)
    assert [[len(worker) for worker in rank] for rank in found] == [[8] * 4] * 2


@pytest.mark.parametrize(
    ("of", "match"),
    [
        (amounts(1, 1000), r"1 shard and 2 ranks: .*first_use=tfquiver.FirstUse\(cut=.*target_bytes=3125"),
        (amounts(1, 1), "1 record and 2 ranks: .*fewer ranks"),
        (amounts(9, 99, 50, drop_remainder=True), "99 records and 2 ranks: with drop_remainder=True and batch_size=50"),
    ],
)
def test_where_a_rank_would_have_nothing_it_is_said(of: Any, match: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=match):
        shares.check(of, 2)
    shares.check(of, 1)
    shares.check(amounts(0, 0), 2)


@pytest.mark.parametrize("change", [{"part": 3}, {"part": -1}, {"parts": -3, "part": 0}, {"parts": "3"}])
def test_a_state_of_a_share_that_there_cannot_be_is_refused(change: dict[str, Any]) -> None:
    state = positions.Position(1, 2, "d", 3, part=2, parts=3).state_dict()
    positions.check(positions.read(state), 1, 2, "d", 21)
    with pytest.raises(errors.InvalidArgumentError, match="is damaged"):
        positions.check(positions.read({**state, **change}), 1, 2, "d", 21)


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "workers"), [(3, 2), (4, 0)])
def test_each_rank_has_batches_of_as_few_shards(paths: list[Path], cache_dir: Path, ranks: int, workers: int) -> None:
    """The first one to come had them all: DistributedDataParallel then waited for the others for ever."""
    said = Job(paths, cache_dir, ranks, workers, [{"cut": A_FILE, "epochs": 2}] * ranks).said()
    for epoch in range(2):
        each = [count(one, epoch) for one in said]
        assert sum(each, Counter()) == EVERYTHING
        assert sorted(one.total() for one in each) == [RECORDS] * (2 * ranks - FILES) + [2 * RECORDS] * (FILES - ranks)


@pytest.mark.slow
def test_a_job_goes_on_in_its_shares(paths: list[Path], cache_dir: Path, tmp_path: Path) -> None:
    """Where a worker has none, one has ended, and one has not begun, too; Deterministic orders come again."""
    orders = []
    for stops in ((9, 3, None), (5, 8, None), (None,)):
        seen: list[list[int]] = [[], []]
        for stop in stops:
            states = [{"state": str(tmp_path / f"{stops}-{rank}")} for rank in range(2)]
            more: dict[str, Any] = {"cut": A_FILE, "deterministic": 5} | ({"stop_after": stop} if stop else {})
            for rank, said in enumerate(Job(paths, cache_dir, 2, 3, [state | more for state in states]).said()):
                seen[rank] += [number for line in said for number in line.get("numbers", ())]
        assert Counter(number for one in seen for number in one) == EVERYTHING
        orders.append(seen)
    assert orders[0] == orders[1] == orders[2]


@pytest.mark.slow
def test_ranks_train_together_whatever_batches_they_have(paths: list[Path], cache_dir: Path) -> None:
    said = Job(paths, cache_dir, 3, 2, [{"cut": A_FILE, "trains": True}] * 3).said()
    assert sum((count(one) for one in said), Counter()) == EVERYTHING


def test_more_ranks_than_shards_are_an_error_and_what_it_advises_helps(paths: list[Path], cache_dir: Path) -> None:
    source = [str(path) for path in paths]

    def asked(cut: Sequence[int]) -> Any:
        return quiver.QuiverDataset(
            source, cache_dir=cache_dir, first_use=tfquiver.FirstUse(cut=tfquiver.CutPolicy(*cut)), rank=0,
            world_size=5,
        )  # fmt: skip

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHELASTIC_RUN_ID", "run")
        with pytest.raises(errors.InvalidArgumentError, match="4 shards and 5 ranks") as found:
            asked(A_FILE)
        advised = str(found.value).partition("CutPolicy(")[2].partition(")")[0]
        data = asked([int(part.partition("=")[2]) for part in advised.split(", ")])
        assert data._records.num_shards >= 8 * 5
