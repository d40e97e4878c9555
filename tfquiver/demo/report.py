"""What the demo found out: as a table and as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from rich import box
from rich.table import Table

from tfquiver.testing.throttled_store import Traffic


@dataclass
class TrialResult:
    name: str
    learning_rate: float
    records_per_epoch: list[int] = field(default_factory=list)
    distinct_per_epoch: list[int] = field(default_factory=list)
    wall_s: float = 0.0
    accuracy: float = 0.0


@dataclass
class RoundResult:
    """Three trials at once. `hit_ratio`: of all shards that readers got, the share that came out of a cache."""

    way: str
    trials: list[TrialResult]
    wall_s: float
    traffic: Traffic
    hit_ratio: float | None = None

    def complete(self, records: int) -> bool:
        """Whether every trial saw every record exactly once in every epoch."""
        return all(
            trial.records_per_epoch and set(trial.records_per_epoch + trial.distinct_per_epoch) == {records}
            for trial in self.trials
        )


@dataclass
class DemoResult:
    records: int
    dataset_bytes: int
    epochs: int
    bytes_per_s: float
    rounds: list[RoundResult]

    @property
    def complete(self) -> bool:
        return all(one.complete(self.records) for one in self.rounds)

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "complete": self.complete}


def table(result: DemoResult) -> Table:
    """At most 80 columns wide: it is read in terminals and logs."""
    made = Table(
        title=f"{result.records} digits ({_mb(result.dataset_bytes)} MB), {result.epochs} epochs, three trials at once",
        caption=f"the store gives {_mb(result.bytes_per_s)} MB/s in all; x data: bytes of objects read / of data",
        box=box.SIMPLE_HEAD,
        padding=(0, 0, 0, 1),
        pad_edge=False,
    )
    made.add_column("reading")
    for heading in ("rate", "wall s", "records", "MB", "x data", "requests", "hits", "acc."):
        made.add_column(heading, justify="right")
    for one in result.rounds:
        for trial in one.trials:
            seen = _epochs(trial, result)
            made.add_row(
                one.way, f"{trial.learning_rate:g}", f"{trial.wall_s:.1f}", seen, *[""] * 4, f"{trial.accuracy:.3f}"
            )
        totals = [
            "all",
            f"{one.wall_s:.1f}",
            "complete" if one.complete(result.records) else "[red]INCOMPLETE",
            _mb(one.traffic.total_bytes),
            f"{one.traffic.payload_bytes / result.dataset_bytes:.2f}",
            str(one.traffic.requests),
            "" if one.hit_ratio is None else f"{one.hit_ratio:.0%}",
            "",
        ]
        made.add_row(one.way, *totals, style="bold", end_section=True)
    return made


def _epochs(trial: TrialResult, result: DemoResult) -> str:
    """`3 x 4000` when all is well; else each epoch's records, and how many different ones."""
    if trial.records_per_epoch == trial.distinct_per_epoch == [result.records] * result.epochs:
        return f"{result.epochs} x {result.records}"
    pairs = zip(trial.records_per_epoch, trial.distinct_per_epoch, strict=True)
    return "[red]" + ", ".join(f"{seen} ({distinct} different)" for seen, distinct in pairs)


def _mb(size_bytes: float) -> str:
    return f"{size_bytes / 1e6:.2f}"
