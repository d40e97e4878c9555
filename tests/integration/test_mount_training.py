"""A model that is trained on a mount's files is the model that is trained on the source's: the same weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.mounted import forget_pages, mounted
from tests.support.privileges import needs_fuse

datasets = pytest.importorskip("sklearn.datasets", reason="pip install scikit-learn")
images = pytest.importorskip("PIL.Image", reason="pip install pillow")

TRAINED, EPOCHS, BATCH = 1200, 2, 20


def write(root: Path) -> None:
    """The 1797 handwritten digits that ship with scikit-learn (8 x 8, from UCI), a file each, a folder a class."""
    digits = datasets.load_digits()
    for number, (pixels, label) in enumerate(zip(digits.images, digits.target, strict=True)):
        folder = root / f"{'train' if number < TRAINED else 'test'}" / str(label)
        folder.mkdir(parents=True, exist_ok=True)
        images.fromarray((pixels * 15).astype(np.uint8)).save(folder / f"{number:04}.png")


def read(path: Path) -> tuple[np.ndarray, int]:
    with images.open(path) as image:
        return np.asarray(image, np.float64).reshape(-1) / 240, int(path.parent.name)


def train(root: Path) -> np.ndarray:
    """Softmax regression, by stochastic gradient descent; in an order that the seed says. Files are read anew every
    epoch."""
    choose, weights = np.random.default_rng(7), np.zeros((65, 10))
    paths = sorted((root / "train").rglob("*.png"))
    assert len(paths) == TRAINED
    for _ in range(EPOCHS):
        order = choose.permutation(len(paths))
        for at in range(0, len(order), BATCH):
            samples = [read(paths[number]) for number in order[at : at + BATCH]]
            inputs = np.stack([np.append(pixels, 1.0) for pixels, _ in samples])
            wanted = np.eye(10)[[label for _, label in samples]]
            scores = np.exp(inputs @ weights)
            weights -= 0.5 / BATCH * inputs.T @ (scores / scores.sum(1, keepdims=True) - wanted)
    return weights


def accuracy(root: Path, weights: np.ndarray) -> float:
    samples = [read(path) for path in sorted((root / "test").rglob("*.png"))]
    inputs = np.stack([np.append(pixels, 1.0) for pixels, _ in samples])
    return float(np.mean(np.argmax(inputs @ weights, 1) == [label for _, label in samples]))


@pytest.mark.long
@needs_fuse
def test_the_weights_are_equal_cold_and_warm(tmp_path: Path) -> None:
    source = tmp_path / "digits"
    write(source)
    wanted = train(source)
    with mounted(tmp_path / "mnt", tmp_path / "cache", [str(source)]) as mount:
        for _ in range(2):
            forget_pages()
            assert np.array_equal(train(mount.point), wanted)
        assert accuracy(mount.point, wanted) == accuracy(source, wanted) > 0.85
