"""Runs the first Python block of a README as a user would who has 2000 records, with the tfquiver that is installed.

`parse` and `model`, which the block leaves to its reader, are given; files and a cache directory are put in place of
its own.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import tensorflow as tf
from keras import Sequential, layers

import tfquiver
from tfquiver.ops.library import loader

RECORDS = 2000
FEATURES = {"id": tf.io.FixedLenFeature([], tf.int64), "x": tf.io.FixedLenFeature([4], tf.float32)}


def record(number: int) -> bytes:
    x = [float(number >> bit & 1) for bit in range(4)]
    feature = {
        "id": tf.train.Feature(int64_list=tf.train.Int64List(value=[number])),
        "x": tf.train.Feature(float_list=tf.train.FloatList(value=x)),
    }
    return bytes(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())


def parse(records: Any) -> tuple[Any, Any]:
    parsed = tf.io.parse_example(records, FEATURES)
    return parsed["x"], parsed["id"]


def main(readme: Path, folder: Path) -> None:
    home = Path(str(tfquiver.__file__)).parent
    assert home.is_relative_to(sys.prefix), f"{home} is not what was installed"
    assert find_spec("service") is None and find_spec("ops") is None, "top-level names leaked"
    library = loader.load()
    assert library.path.parent == home / "ops" / "lib", f"{library.path} is not the wheel's"

    for part in range(4):
        with tf.io.TFRecordWriter(str(folder / f"train-{part}")) as writer:
            for number in range(part, RECORDS, 4):
                writer.write(record(number))
    found = re.search(r"^```python\n(.*?)^```", readme.read_text(), re.DOTALL | re.MULTILINE)
    assert found is not None, f"{readme}: no Python block"
    code = found[1].replace("gs://bucket/", f"{folder}/").replace("/ssd/tfquiver", str(folder / "cache"))
    model = Sequential([layers.Dense(8, "relu"), layers.Dense(1)])
    model.compile("adam", "mse")
    print(code)
    names: dict[str, Any] = {"parse": parse, "model": model}
    exec(code, names)
    ids = sorted(int(number) for _, batch in names["data"] for number in batch)
    assert ids == list(range(RECORDS)), f"{len(ids)} records, {len(set(ids))} of them distinct"
    subprocess.run([Path(sys.executable).parent / "tfquiver", "status", str(folder / "cache")], check=True)
    versions = f"Python {sys.version.split()[0]}, TensorFlow {tf.__version__}"
    print(f"{versions}, {library.path.name}: {len(ids)} records, each once")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(Path(sys.argv[1]), Path(scratch))
