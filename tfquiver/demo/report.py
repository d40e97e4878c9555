"""What the demo found out: as a table and as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from rich.table import Table

from tfquiver.demo.throttled_store import Traffic


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
    title = (
        f"{result.records} digits, {_mb(result.dataset_bytes)}, {result.epochs} epochs, three trials at once; "
        f"the store gives {_mb(int(result.bytes_per_s))}/s"
    )
    made = Table(title=title, show_footer=False)
    made.add_column("reading")
    for heading in ("learning rate", "wall s", "records per epoch", "from the store", "requests", "hit ratio"):
        made.add_column(heading, justify="right")
    made.add_column("accuracy", justify="right")
    for one in result.rounds:
        for trial in one.trials:
            seen = ", ".join(map(str, trial.records_per_epoch))
            right = trial.distinct_per_epoch == trial.records_per_epoch == [result.records] * result.epochs
            made.add_row(
                one.way,
                f"{trial.learning_rate:g}",
                f"{trial.wall_s:.1f}",
                seen if right else f"[red]{seen} (different: {trial.distinct_per_epoch})",
                "",
                "",
                "",
                f"{trial.accuracy:.3f}",
            )
        made.add_row(
            f"[bold]{one.way}",
            "[bold]all three",
            f"[bold]{one.wall_s:.1f}",
            "",
            f"[bold]{_mb(one.traffic.total_bytes)} = {one.traffic.payload_bytes / result.dataset_bytes:.2f} x data",
            f"[bold]{one.traffic.requests}",
            "" if one.hit_ratio is None else f"[bold]{one.hit_ratio:.0%}",
            "",
            end_section=True,
        )
    return made


def _mb(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.2f} MB"
