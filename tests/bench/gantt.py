"""Where the time of 20 mini-batches goes, without the cache and with it (the paper's Figures 4 and 5).

One job of the paper's ResNet50 workload, its share of the store's rate its own. The pipeline is what a user writes:
source, parallel map, prefetch, training step; every stage of every mini-batch says when it began and ended. The
transformation and the step are slept, 2.5 steps long the one, four at a time; reading is real. Both sides in one run:
the same data set, cached not at all and then wholly.

Stalled on I/O is the time in which there was no step and a mini-batch was being read.

    python -m tests.bench.gantt [--quick] [--out=DIR]
"""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.bench.bars import Bar, finish, quick_parser, run_bench
from tests.bench.experiment import plots
from tests.bench.experiment.jobs import JobSpec
from tests.bench.experiment.paper import JOBS, RESNET50
from tests.bench.experiment.remote import Data, Remote
from tests.bench.experiment.world import World
from tests.support import numbered

if TYPE_CHECKING:
    import tensorflow as tf

STORE_BYTES_PER_S = 8 << 20
RECORD_BYTES = 8176  # and 16 of framing
SHARD_RECORDS, FILES = 8, 8
SHOWN, SKIPPED = 20, 10  # mini-batches; the first ones fill the pipeline
TRANSFORM_STEPS, TRANSFORMS_AT_ONCE = 2.5, 4
PREFETCH = 2
LEAST_STALLED_WITHOUT, MOST_STALLED_WITH = 0.5, 0.05


@dataclass(frozen=True)
class Timeline:
    """Seconds, shape [mini-batches, 3, 2]: of reading, transformation and step, when each began and ended."""

    spans: np.ndarray[Any, np.dtype[np.float64]]

    def shown(self) -> Timeline:
        some = self.spans[SKIPPED : SKIPPED + SHOWN]
        return Timeline(some - some[0, 0, 0])

    @property
    def wall_s(self) -> float:
        """From the first step's beginning to the last one's."""
        return float(self.spans[-1, 2, 0] - self.spans[0, 2, 0])

    @property
    def stalled_s(self) -> float:
        """Without a step under way."""
        return float((self.spans[1:, 2, 0] - self.spans[:-1, 2, 1]).sum())

    @property
    def stalled_on_io_s(self) -> float:
        """Of that, while some mini-batch was being read."""
        idle_from, idle_to = self.spans[:-1, 2, 1, None], self.spans[1:, 2, 0, None]
        # One is read at a time, so that no moment is counted twice.
        read_from, read_to = self.spans[:, 0, 0], self.spans[:, 0, 1]
        return float(np.maximum(0.0, np.minimum(idle_to, read_to) - np.maximum(idle_from, read_from)).sum())

    def report(self) -> dict[str, float]:
        seconds = (self.spans[:, :, 1] - self.spans[:, :, 0]).mean(0)
        return {
            "stalled_on_io": round(self.stalled_on_io_s / self.wall_s, 4),
            "stalled": round(self.stalled_s / self.wall_s, 4),
            "mini_batch_s": round(self.wall_s / (len(self.spans) - 1), 4),
            **{name: round(float(s), 4) for name, s in zip(("io_s", "transform_s", "step_s"), seconds, strict=True)},
        }


def timed(source: tf.data.Dataset, transform_s: float) -> tf.data.Dataset:
    """Batches and the times [4] at which their reading began and ended, and their transformation.

    zip pulls its parts one after the other: the first says when, the second is what there is to wait for.
    """
    import tensorflow as tf

    def work(began_s: tf.Tensor, batch: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        def sleep() -> np.ndarray[Any, np.dtype[np.float64]]:
            began = time.time()
            time.sleep(transform_s)
            return np.array([began, time.time()])

        return batch, tf.concat([began_s, tf.numpy_function(sleep, [], tf.float64)], 0)

    ticks = tf.data.Dataset.counter().map(lambda _: tf.timestamp())
    read = tf.data.Dataset.zip(ticks, source).map(lambda began, batch: (tf.stack([began, tf.timestamp()]), batch))
    chosen = tf.data.Options()
    chosen.threading.private_threadpool_size = 2 * TRANSFORMS_AT_ONCE  # sleeping ones fill a pool of as many as cores
    transformed = read.map(work, num_parallel_calls=TRANSFORMS_AT_ONCE, deterministic=True)
    return transformed.prefetch(PREFETCH).with_options(chosen)


def epoch(world: World, data: Data, batch: int) -> tuple[Timeline, bool]:
    """One epoch's timeline, and whether every record was seen once."""
    spec = JobSpec("gantt", RESNET50.step_s, batch, prefetch=0, hold_back=PREFETCH + TRANSFORMS_AT_ONCE + 1)
    dataset = timed(world.dataset(data, spec), TRANSFORM_STEPS * RESNET50.step_s)
    spans, seen = [], []
    for records, times in dataset.as_numpy_iterator():
        began = time.time()
        seen.append(numbered.numbers(records))
        time.sleep(max(0.0, began + RESNET50.step_s - time.time()))
        spans.append([times[0:2], times[2:4], [began, time.time()]])
    return Timeline(np.array(spans)), numbered.lost_and_duplicates(np.concatenate(seen), data.records) == (0, 0)


def draw(timelines: dict[str, Timeline], out: Path) -> Path:
    """Writes gantt.png: time to the right, mini-batches downwards."""
    colours = {"I/O": plots.COLOURS["lru"], "transform": "#cccccc", "step": plots.COLOURS["all cached"]}
    figure, axes = plots.figure(len(timelines), height_in=5.6, sharex=True)
    for ax, (title, timeline) in zip(axes, timelines.items(), strict=True):
        rows = range(1, len(timeline.spans) + 1)
        for stage, (name, colour) in enumerate(colours.items()):
            began, ended = timeline.spans[:, stage].T
            ax.barh(rows, ended - began, left=began, height=0.8, color=colour, label=name, linewidth=0)
        share = timeline.stalled_on_io_s / timeline.wall_s
        ax.set_title(f"{title}: {100 * share:.0f} % of the time stalled on I/O", loc="left")
        ax.set_ylabel("mini-batch")
        ax.set_ylim(len(timeline.spans) + 0.8, 0.2)
        ax.set_yticks([1, 5, 10, 15, 20])
        ax.grid(axis="y", visible=False)
    axes[0].legend(loc="upper right")
    axes[-1].set_xlabel("seconds")
    return plots.save(figure, out, "gantt")


def main() -> None:
    parser = quick_parser(__doc__, "no more mini-batches than are shown")
    parser.add_argument("--out", type=Path, default=plots.DEFAULT_OUT, help="directory of the plot")
    arguments = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    share_bytes_per_s = STORE_BYTES_PER_S / JOBS
    batch = round(RESNET50.batch_bytes(STORE_BYTES_PER_S) / (RECORD_BYTES + 16))
    mini_batches = SKIPPED + SHOWN + (0 if arguments.quick else 30)
    records_a_file = -(-mini_batches * batch // (FILES * SHARD_RECORDS)) * SHARD_RECORDS
    with (
        tempfile.TemporaryDirectory(prefix="tfquiver-bench-") as base,
        Remote.start(Path(base), share_bytes_per_s) as remote,
    ):
        data = remote.add("gantt", FILES, records_a_file, RECORD_BYTES, SHARD_RECORDS)
        with World(Path(base) / "run", remote, 2 * data.disk_bytes) as world:
            world.set_cache(data, "none")
            without, each_without = epoch(world, data, batch)
            world.set_cache(data, "uniform")
            epoch(world, data, batch)
            before = remote.payload_bytes()
            cached, each_cached = epoch(world, data, batch)
            fetched_bytes = remote.payload_bytes() - before
    reports = {"without": without.report(), "cached": cached.report()}
    if not arguments.quick:
        draw({"without the cache": without.shown(), "all in the cache": cached.shown()}, arguments.out)
    figures = {
        "store_bytes_per_s": round(share_bytes_per_s),
        "mini_batch_bytes": batch * (RECORD_BYTES + 16),
        "mini_batches": len(without.spans),
        "transforms_at_once": TRANSFORMS_AT_ONCE,
        **reports,
        "speedup": round(reports["without"]["mini_batch_s"] / reports["cached"]["mini_batch_s"], 2),
        "paper_speedup": round(RESNET50.hit_speedup, 2),
        "bytes_from_the_store_when_cached": fetched_bytes,
    }
    bars = [
        Bar("stalled on I/O without the cache", reports["without"]["stalled_on_io"], LEAST_STALLED_WITHOUT),
        Bar("stalled on I/O from the cache", reports["cached"]["stalled_on_io"], MOST_STALLED_WITH, at_most=True),
        Bar("epochs with every record exactly once", each_without + each_cached, 2),
    ]
    finish("gantt", figures, bars, arguments.quick)


if __name__ == "__main__":
    run_bench(main)
