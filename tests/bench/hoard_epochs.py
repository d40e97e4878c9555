"""The first epoch as fast as the store, later ones as the local disk, whatever memory and store there are (Hoard, 2018:
Figures 3, 4 and 5, Table 3).

Jobs with emulated steps read one data set in three ways in one run: straight from the store, each for itself (REM);
from a copy on the local disk, which is there before they begin (NVMe); and through tfquiver, from an empty cache. The
store gives the jobs 1 / 2.32 of what their steps could take: so it was in the paper, whose NVMe jobs took 2.32 times
less time than REM.

Figure 3, Table 3: four jobs on four nodes, as the paper's. Figure 4: one job, which shares its misses with nobody, with
a small and a large hot set; with a small one the pages of the node's disk are taken out of the kernel's memory all the
time, so that each later epoch comes from the disk. Figure 5: one job, and other rates of the store.

    python -m tests.bench.hoard_epochs [--quick] [--out=DIR]

Bars: a first epoch's throughput is at least 0.9 of REM's, later epochs' 0.9 of the local copy's, for each of these
settings; each byte leaves the store once, for all jobs and epochs; every job sees every record once an epoch.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.bench.bars import Bar, finish, quick_parser, run_bench
from tests.bench.experiment import plots, straight
from tests.bench.experiment.jobs import JobRun, Jobs, JobSpec
from tests.bench.experiment.remote import Remote
from tests.bench.experiment.world import World
from tfquiver.stores.gcs import GcsStore

if TYPE_CHECKING:
    import tensorflow as tf

FASTER = 2.32  # the local disk than the store: the paper's Table 3, for long trainings
PAPER = {"REM": (1.0, 1.0, 1.0, 1.0), "Hoard": (0.93, 1.98, 2.07, 2.1), "NVMe": (2.28, 2.3, 2.32, 2.32)}
LENGTHS = (2, 30, 60, 90)  # epochs, of these columns
JOBS = 4
RECORD_BYTES, FILES, BATCH, SHARD_RECORDS = 20_000, 20, 10, 5
JOB_BYTES_PER_S = 1.5e6  # of the store's rate, for each job
FULL_RECORDS, QUICK_RECORDS = 60, 10  # of a file
SHARES = (0.25, 0.5, 1.0, 2.0)  # of that rate, for Figure 5
BUFFER_BYTES = 1 << 20
FIRST_BAR, LATER_BAR, ONCE_BAR, QUICK_BAR = 0.9, 0.9, 1.02, 0.75  # a quick run's epochs count their opening in
FORGET_S = 0.1
DEADLINE_S = 400.0
NODE_FLAGS = ("--lease_ahead=2MiB", "--hot=256KiB")

Open = Callable[[JobSpec], "tf.data.Dataset"]


@dataclass
class Setting:
    """Seconds of an epoch in each way; `rate`: of the store, in bytes/s."""

    figure: int  # of the paper
    jobs: int
    rate: float
    hot: str
    rem_s: float = 0.0
    disk_s: float = 0.0
    first_s: float = 0.0
    later_s: float = 0.0
    copies: float = 0.0  # that have left the store for tfquiver's jobs
    each_once: bool = True

    def bars(self, quick: bool) -> list[Bar]:
        what = f"figure {self.figure}: {self.jobs} jobs, store {self.rate / 1e6:g} MB/s, hot set {self.hot}"
        least = (QUICK_BAR, QUICK_BAR) if quick else (FIRST_BAR, LATER_BAR)
        return [
            Bar(f"{what}: first epoch, of REM", self.rem_s / self.first_s, least[0]),
            Bar(f"{what}: later epochs, of the local copy", self.disk_s / self.later_s, least[1]),
            Bar(f"{what}: times each byte left the store", self.copies, ONCE_BAR, at_most=True),
        ]

    def report(self) -> dict[str, Any]:
        seconds = {name: round(getattr(self, name), 2) for name in ("rem_s", "disk_s", "first_s", "later_s")}
        return {"jobs": self.jobs, "rate": self.rate, "hot": self.hot, **seconds, "copies": round(self.copies, 3)}

    def speedup(self, epochs: int) -> tuple[float, float]:
        """Of tfquiver and of the local copy over REM, for a training so long."""
        rem_s = epochs * self.rem_s
        return rem_s / (self.first_s + (epochs - 1) * self.later_s), self.rem_s / self.disk_s


@dataclass
class Trials:
    """All on one store and one machine; a cluster for each setting."""

    remote: Remote
    base: Path
    records: int  # of a file
    epochs: int  # through tfquiver
    _made: int = 0
    _copies: dict[str, list[str]] = field(default_factory=dict)

    def measure(self, store: GcsStore, figure: int, jobs: int, rate: float, hot: str, forgetful: bool) -> Setting:
        self._made += 1
        data = self.remote.add(f"set{self._made}", FILES, self.records, RECORD_BYTES, SHARD_RECORDS)
        self.remote.store.change_rate(0)
        paths = straight.local_copy(store, data, self.base / data.name / "copy")
        self.remote.store.change_rate(rate)
        setting = Setting(figure, jobs, rate, hot)
        batch_bytes = BATCH * (RECORD_BYTES + 16)
        step_s = batch_bytes / (FASTER * JOB_BYTES_PER_S)  # the model's, whatever this store gives

        def run(name: str, epochs: int, opened: Open) -> Sequence[JobRun]:
            specs = [
                JobSpec(
                    f"{data.name}-{name}-{number}", step_s, BATCH, epochs,
                    shuffle_bytes=BUFFER_BYTES, readahead_bytes=BUFFER_BYTES,
                )
                for number in range(jobs)
            ]  # fmt: skip
            runs = Jobs(specs, opened, data).start().join(DEADLINE_S)
            setting.each_once &= all(one.every_record_once and len(one.complete_epochs) == epochs for one in runs)
            return runs

        setting.rem_s = _mean_s(run("rem", 1, lambda spec: straight.from_store(store, data, spec)), slice(0, 1))
        setting.disk_s = _mean_s(run("disk", 2, lambda spec: straight.from_disk(paths, spec)), slice(1, 2))
        flags = [*NODE_FLAGS, f"--hot={hot}"]
        with World(self.base / data.name / "run", self.remote, 2 * data.disk_bytes, jobs, {"node": flags}) as world:
            # As whoever manages data sets asks for. Where nobody does, the policy measures what caching brings: for a
            # hundred mini-batches the job misses, which of a data set as small as this are an epoch.
            world.set_cache(data, "uniform")
            before = self.remote.payload_bytes()
            with _forgotten(world, jobs) if forgetful else nullcontext():
                runs = run("cached", self.epochs, lambda spec: world.dataset(data, spec, int(spec.name[-1])))
            setting.copies = (self.remote.payload_bytes() - before) / data.size_bytes
        setting.first_s, setting.later_s = _mean_s(runs, slice(0, 1)), _mean_s(runs, slice(1, None))
        print(setting.report(), file=sys.stderr)
        return setting


def _mean_s(runs: Sequence[JobRun], which: slice) -> float:
    walls = [epoch.wall_s for run in runs for epoch in run.complete_epochs[which]]
    return sum(walls) / len(walls)


@contextmanager
def _forgotten(world: World, nodes: int) -> Iterator[None]:
    """The kernel keeps nothing of what the nodes have on their disks."""
    stop = threading.Event()

    def forget() -> None:
        while not stop.wait(FORGET_S):
            for node in range(nodes):
                for path in (world.cache_dir(node) / "objects").glob("??/??/*"):
                    try:
                        descriptor = os.open(path, os.O_RDONLY)
                    except OSError:
                        continue  # a temporary file
                    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                    os.close(descriptor)

    thread = threading.Thread(target=forget, name="forget")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def draw(four: Setting, memory: Sequence[Setting], stores: Sequence[Setting], size_bytes: int, out: Path) -> Path:
    """Writes hoard_epochs.png: speed-ups of Table 3 beside the paper's, Figures 4 and 5."""
    figure, (table, by_memory, by_store) = plots.figure(1, 3, width_in=10.0, height_in=3.2)
    table.plot(LENGTHS, PAPER["Hoard"], "o--", color=plots.COLOURS["none"], label="Hoard, paper")
    table.plot(LENGTHS, PAPER["NVMe"], "s--", color=plots.COLOURS["lru"], label="NVMe, paper")
    ours = [four.speedup(epochs) for epochs in LENGTHS]
    table.plot(LENGTHS, [one[0] for one in ours], "o-", color=plots.COLOURS["relevance"], label="tfquiver")
    table.plot(LENGTHS, [one[1] for one in ours], "s-", color=plots.COLOURS["all cached"], label="local copy")
    table.set(title="Table 3: speed-up over REM", xlabel="epochs", ylim=(0, None))
    table.legend()
    for axes, settings, label in ((by_memory, memory, "hot"), (by_store, stores, "rate")):
        ticks = [one.hot if label == "hot" else f"{one.rate / 1e6:g}" for one in settings]
        places = range(len(settings))
        for name, colour, seconds in (
            ("REM", "none", [one.rem_s for one in settings]),
            ("tfquiver, first epoch", "cyclic", [one.first_s for one in settings]),
            ("tfquiver, later epochs", "relevance", [one.later_s for one in settings]),
            ("local copy", "all cached", [one.disk_s for one in settings]),
        ):
            rates = [size_bytes / 1e6 / one for one in seconds]
            axes.plot(places, rates, "o-", color=plots.COLOURS[colour], label=name)
        axes.set_xticks(list(places), ticks)
        axes.set(ylim=(0, None), ylabel="MB/s")
    by_memory.set(title="Figure 4: memory", xlabel="hot set")
    by_store.set(title="Figure 5: the store's rate", xlabel="MB/s")
    by_store.legend()
    return plots.save(figure, out, "hoard_epochs")


def table_3(four: Setting) -> dict[str, Any]:
    """Beside the paper's, with what makes the difference."""
    rows = {
        str(epochs): {
            "tfquiver": round(four.speedup(epochs)[0], 2), "hoard": PAPER["Hoard"][at],
            "local_copy": round(four.speedup(epochs)[1], 2), "nvme": PAPER["NVMe"][at],
        }
        for at, epochs in enumerate(LENGTHS)
    }  # fmt: skip
    theirs = 2 / PAPER["Hoard"][0] - 1 / PAPER["Hoard"][-1]
    return {
        "rows": rows,
        "why": (
            f"by its own row of 2 epochs Hoard's first took {theirs:.2f} epochs of REM; here it took "
            f"{four.first_s / four.rem_s:.2f}, for the jobs share what one of them has fetched: "
            f"{four.copies:.2f} copies left the store, for REM {four.jobs}"
        ),
    }


def main() -> None:
    parser = quick_parser(__doc__, "a smaller data set and fewer settings, less than 60 s")
    parser.add_argument("--out", type=Path, default=plots.DEFAULT_OUT, help="directory of the plot")
    arguments = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    records, quick = (QUICK_RECORDS if arguments.quick else FULL_RECORDS), arguments.quick
    with (
        tempfile.TemporaryDirectory(prefix="tfquiver-bench-") as base,
        Remote.start(Path(base) / "remote", JOB_BYTES_PER_S) as remote,
    ):
        with remote.used():
            store = GcsStore()
        with closing(store):
            trials = Trials(remote, Path(base), records, epochs=2 if quick else 3)
            four = trials.measure(store, 3, JOBS, JOBS * JOB_BYTES_PER_S, "256KiB", forgetful=False)
            large = "1GiB"
            memory = [
                trials.measure(store, 4, 1, JOB_BYTES_PER_S, hot, forgetful=hot != large)
                for hot in (("256KiB",) if quick else ("256KiB", "8MiB", large))
            ]
            stores = [
                trials.measure(store, 5, 1, share * JOB_BYTES_PER_S, "256KiB", forgetful=False)
                for share in ((2.0,) if quick else SHARES)
            ]
    settings = [four, *memory, *stores]
    if not quick:
        draw(four, memory, stores, FILES * records * (RECORD_BYTES + 16), arguments.out)
    bars = [bar for setting in settings for bar in setting.bars(quick)]
    once = sum(setting.each_once for setting in settings)
    bars.append(Bar("settings in which every job saw every record once an epoch", once, len(settings)))
    figures = {
        "size_bytes": FILES * records * (RECORD_BYTES + 16),
        "table_3": table_3(four),
        "figure_3": four.report(),
        "figure_4": [one.report() for one in memory],
        "figure_5": [one.report() for one in stores],
    }
    finish("hoard_epochs", figures, bars, quick)


if __name__ == "__main__":
    run_bench(main)
