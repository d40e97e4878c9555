"""TensorFlow and PyTorch read a mount as they read any directory."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.support.mounted import every, mounted, write_images, write_source
from tests.support.privileges import needs_fuse

pytestmark = [needs_fuse]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_source(tmp_path / "data")


@pytest.mark.long
def test_tensorflow_reads_it_unmodified(tmp_path: Path, source: Path) -> None:
    import tensorflow as tf

    with mounted(tmp_path / "mnt", tmp_path / "cache", every(source)) as mount:

        def records(root: Path) -> list[bytes]:
            names = [str(path) for path in sorted(root.rglob("*.tfrecord"))]
            return list(tf.data.TFRecordDataset(names).as_numpy_iterator())

        assert records(mount.point) == records(source)


def test_pytorch_reads_it_unmodified(tmp_path: Path, seed: int) -> None:
    """File by file, in two worker processes; in the order of the guide's sampler."""
    data = pytest.importorskip("torch.utils.data", reason="pip install torch")
    choose = random.Random(seed)
    images = tmp_path / "images"
    write_images(images, choose, 40, 30_000)
    with mounted(tmp_path / "mnt", tmp_path / "cache", [str(images)]) as mount:
        paths = sorted(mount.point.rglob("*.jpg"))
        numbers = {str(path.relative_to(mount.point)): number for number, path in enumerate(paths)}
        order = [numbers[name] for name in (mount.point / ".tfquiver" / "next").read_text().splitlines()]
        assert sorted(order) == list(range(80))
        loader = data.DataLoader(
            Files([str(path) for path in paths]), sampler=order, batch_size=8, num_workers=2, collate_fn=list,
            multiprocessing_context="spawn",
        )  # fmt: skip
        read = [sample for batch in loader for sample in batch]
    assert [Path(path).relative_to(mount.point) for path, _ in read] == [
        paths[number].relative_to(mount.point) for number in order
    ]
    for path, content in read:
        assert content == (images / Path(path).relative_to(mount.point)).read_bytes()


class Files:
    """A map-style data set of whole files."""

    def __init__(self, paths: list[str]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, number: int) -> tuple[str, bytes]:
        return self.paths[number], Path(self.paths[number]).read_bytes()
