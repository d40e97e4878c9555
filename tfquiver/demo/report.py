"""What the demo found out: as a table, as bars in the terminal, and as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from rich import box
from rich.table import Table

from tfquiver.sizes_durations_amounts.amounts import many
from tfquiver.testing.throttled_store import Traffic

_BAR = 24


@dataclass
class TrialResult:
    name: str
    learning_rate: float
    records_per_epoch: list[int] = field(default_factory=list)
    distinct_per_epoch: list[int] = field(default_factory=list)
    epoch_ends_s: list[float] = field(default_factory=list)
    accuracy: float = 0.0

    @property
    def wall_s(self) -> float:
        return self.epoch_ends_s[-1] if self.epoch_ends_s else 0.0


@dataclass
class RoundResult:
    """Three trials at once. Times count from when all of them were told to begin.

    `left_store`: pairs of seconds and payload bytes that had left the store by then. `hit_ratio`: of all shards that
    readers got, the share that came out of a cache.
    """

    way: str
    trials: list[TrialResult]
    wall_s: float
    traffic: Traffic
    left_store: list[tuple[float, int]] = field(default_factory=list)
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
        title=f"{result.records} digits ({_mb(result.dataset_bytes)} MB), {many(result.epochs, 'epoch')}, "
        "three trials at once",
        caption=f"the store gives {_mb(result.bytes_per_s)} MB/s in all; MB: read of files; x data: of their size",
        box=box.SIMPLE_HEAD,
        padding=(0, 0, 0, 1),
        pad_edge=False,
    )
    made.add_column("reading")
    for heading in ("rate", "time s", "records", "MB", "x data", "requests", "hits", "acc."):
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
            _mb(one.traffic.payload_bytes),
            f"{one.traffic.payload_bytes / result.dataset_bytes:.2f}",
            str(one.traffic.requests),
            "" if one.hit_ratio is None else f"{one.hit_ratio:.0%}",
            "",
        ]
        made.add_row(one.way, *totals, style="bold", end_section=True)
    return made


def bars(result: DemoResult, ascii_only: bool = False) -> Table:
    """The same in one look: what left the store, and how long it took."""
    block = "#" if ascii_only else "█"
    made = Table.grid(padding=(0, 2, 0, 0))
    most_bytes = max(one.traffic.payload_bytes for one in result.rounds)
    most_s = max(one.wall_s for one in result.rounds)
    made.add_row("", "[bold]left the store", "", "[bold]time", "")
    for one, color in zip(result.rounds, ("green", "red"), strict=False):
        left, took = one.traffic.payload_bytes / most_bytes, one.wall_s / most_s
        made.add_row(
            one.way,
            f"[{color}]{block * max(round(left * _BAR), 1)}",
            f"{_mb(one.traffic.payload_bytes)} MB",
            f"[{color}]{block * max(round(took * _BAR), 1)}",
            f"{one.wall_s:.1f} s",
        )
    return made


def verdict(result: DemoResult) -> str:
    """What the two rounds say about each other, in one line."""
    cached, direct = result.rounds
    fewer = direct.traffic.payload_bytes / max(cached.traffic.payload_bytes, 1)
    return f"with tfquiver {fewer:.1f} x fewer bytes left the store, and it took {_compared(cached, direct)}"


def _compared(cached: RoundResult, direct: RoundResult) -> str:
    if cached.wall_s <= direct.wall_s:
        return f"1/{direct.wall_s / cached.wall_s:.1f} of the time"
    return f"{cached.wall_s / direct.wall_s:.1f} x the time: this machine is busy"


def _epochs(trial: TrialResult, result: DemoResult) -> str:
    """`3 x 4000` when all is well; else each epoch's records, and how many different ones."""
    if trial.records_per_epoch == trial.distinct_per_epoch == [result.records] * result.epochs:
        return f"{result.epochs} x {result.records}"
    pairs = zip(trial.records_per_epoch, trial.distinct_per_epoch, strict=True)
    return "[red]" + ", ".join(f"{seen} ({distinct} different)" for seen, distinct in pairs)


def _mb(size_bytes: float) -> str:
    return f"{size_bytes / 1e6:.2f}"
