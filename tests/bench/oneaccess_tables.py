"""What sharing takes away of preprocessing and I/O (OneAccess, HotCloud'19, section 2.1), with real images.

The paper counts, in a month of experiments, 35 jobs over the same data each, 9 of them at a time: so 1 - 1/35 = 97 % of
the preprocessing is redundant, and 1 - 1/9 = 89 % of the I/O. Here the jobs run:

* 35 in sequence, an epoch each, over scikit-learn's digits (1797 images as PNG), decoded and scaled by
  `tfquiver.materialize`: how often the function was called, beside 35 jobs that each call it for each record;
* 9 at once, each in a process of its own, over another copy that nobody has used before: calls, and bytes read from the
  files, beside 9 jobs that each read all of it.

    python -m tests.bench.oneaccess_tables [--quick]

`--quick`: 35 jobs in one process; else each in a process of its own. The last line is one JSON object; exit code 1 when
a bar is missed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.bench.bars import Bar, finish, quick_parser, run_bench
from tests.support.cluster import Server, die_with_parent, tensorflow_env

IN_SEQUENCE, AT_ONCE, FILES = 35, 9, 4


def write_digits(folder: Path, salt: int) -> tuple[int, int]:
    """Records and bytes. `salt`: other bytes, the same images."""
    import tensorflow as tf
    from sklearn.datasets import load_digits

    digits = load_digits()
    folder.mkdir()
    for number in range(FILES):
        with tf.io.TFRecordWriter(str(folder / f"part-{number}.tfrecord")) as writer:
            for index in range(number, len(digits.images), FILES):
                image = tf.cast(digits.images[index] * 15, tf.uint8)[..., None]
                feature = {
                    "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[tf.io.encode_png(image).numpy()])),
                    "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[int(digits.target[index])])),
                    "salt": tf.train.Feature(int64_list=tf.train.Int64List(value=[salt])),
                }
                writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    return len(digits.images), sum(path.stat().st_size for path in folder.iterdir())


def job(folder: Path, cache_dir: Path, calls: Path) -> int:
    """One epoch of one job: the images it has had. Each call of the function adds a line to `calls`."""
    import tensorflow as tf

    import tfquiver

    def scaled(record: tf.Tensor) -> Any:
        tf.print("called", output_stream=f"file://{calls}")
        kinds = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
        example = tf.io.parse_single_example(record, kinds)
        image = tf.image.resize(tf.io.decode_png(example["image"], channels=1), [28, 28])
        return tf.ensure_shape(image, [28, 28, 1]), example["label"]

    cut = tfquiver.CutPolicy(4096, 8192, 32768)
    files = sorted(str(path) for path in folder.iterdir())
    data = tfquiver.dataset(files, cache_dir=cache_dir, batch_size=64, first_use=tfquiver.FirstUse(cut=cut))
    data = data.apply(tfquiver.materialize(scaled))
    return sum(int(tf.shape(labels)[0]) for _, labels in data)


def started(folder: Path, cache_dir: Path, calls: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.bench.oneaccess_tables", "--job", str(folder), str(cache_dir), str(calls)]
    return subprocess.Popen(
        command, env=tensorflow_env(), stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent
    )


def images_of(process: subprocess.Popen[str]) -> int:
    out, _ = process.communicate(timeout=1800)
    assert process.returncode == 0, out
    return int(out.split()[-1])


def lines(path: Path) -> int:
    return len(path.read_bytes().splitlines()) if path.exists() else 0


def store_bytes(control: str) -> int:
    import grpc

    from tfquiver.proto.tfquiver.v1 import node_pb2, node_pb2_grpc

    with grpc.insecure_channel(control) as channel:
        return int(node_pb2_grpc.NodeStub(channel).Status(node_pb2.StatusRequest(), timeout=30).store_bytes)


def measure(base: Path, quick: bool) -> tuple[dict[str, Any], list[Bar]]:
    cache_dir = base / "cache"
    node = Server(
        "tfquiver.service.node.main", [f"--cache_dir={cache_dir}", "--quota=1GiB"], base / "node.log"
    ).start()  # fmt: skip
    try:
        images, size_bytes = write_digits(base / "first", 1)
        calls = base / "calls"
        for number in range(IN_SEQUENCE):
            done = (
                job(base / "first", cache_dir, calls) if quick else images_of(started(base / "first", cache_dir, calls))
            )
            assert done == images, (number, done)
        sequence = lines(calls)
        write_digits(base / "second", 2)
        before, calls = store_bytes(node.ready["control"]), base / "calls at once"
        jobs = [started(base / "second", cache_dir, calls) for _ in range(AT_ONCE)]
        assert [images_of(one) for one in jobs] == [images] * AT_ONCE
        read, at_once = store_bytes(node.ready["control"]) - before, lines(calls)
    finally:
        from tfquiver.node_daemon_and_notes_in_directories import endpoints

        endpoints.close_all()
        node.stop()
    gone = {
        "preprocessing, 35 in sequence": 1 - sequence / (IN_SEQUENCE * images),
        "preprocessing, 9 at once": 1 - at_once / (AT_ONCE * images),
        "I/O, 9 at once": 1 - read / (AT_ONCE * size_bytes),
    }
    figures = {
        "images": images, "data_set_bytes": size_bytes, "calls_35_in_sequence": sequence, "calls_9_at_once": at_once,
        "read_bytes_9_at_once": read, "gone": {name: round(share, 4) for name, share in gone.items()},
    }  # fmt: skip
    bars = [  # the paper's 97 % and 89 % are 1 - 1/35 and 1 - 1/9, rounded
        Bar("preprocessing gone, 35 jobs in sequence", gone["preprocessing, 35 in sequence"], 0.97),
        Bar("I/O gone, 9 jobs at once", gone["I/O, 9 at once"], 0.885),
        Bar("calls of 9 jobs at once / of one", at_once / images, 1.02, at_most=True),
    ]
    return figures, bars


def main() -> None:
    parser = quick_parser(__doc__, "35 jobs in one process, less than 60 s")
    parser.add_argument("--job", nargs=3, type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    if given.job:
        print(job(*given.job))
        return
    with tempfile.TemporaryDirectory(prefix="tfquiver-bench-") as base:
        figures, bars = measure(Path(base), given.quick)
    finish("oneaccess_tables", figures, bars, given.quick)


if __name__ == "__main__":
    run_bench(main)
