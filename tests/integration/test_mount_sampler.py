"""The guide's sampler, as the page shows it (docs/guide/files.md), over a real mount: cached first, each file once."""

from __future__ import annotations

import ast
import itertools
import random
import re
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Generic, TypeVar

import pytest

from tests.support import warm
from tests.support.mounted import command, mounted
from tests.support.privileges import needs_fuse

pytestmark = [needs_fuse]
PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "files.md"
T = TypeVar("T")
KINDS = ("cats", "dogs", "two\nlines")
IMAGES = 90

# Run behind the page's own code: each image is of one colour, which says which one it is.
TOLD = """
for images, labels in loader:
    for image, label in zip((images * 255).round().int(), labels.tolist(), strict=True):
        assert image.shape == (3, 224, 224)
        red, green, blue = (set(channel.flatten().tolist()) for channel in image)
        assert blue == {label}
        print(red.pop() * 256 + green.pop(), flush=True)
        assert not red | green
"""


def code() -> str:
    fences: list[str] = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    (found,) = [fence for fence in fences if "class CachedFirst" in fence]
    return found


def sampler_class() -> Any:
    """Of the page, where there is no PyTorch: of that it needs a class to inherit from, and names of types."""

    class Sampler(Generic[T]):
        pass

    (body,) = [ast.unparse(node) for node in ast.parse(code()).body if isinstance(node, ast.ClassDef)]
    names = {"Sampler": Sampler, "Iterator": Iterator, "Path": Path, "islice": itertools.islice, "ImageFolder": object}
    exec(body, names)
    return names["CachedFirst"]


def png(number: int, label: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    row = b"\0" + bytes([number // 256, number % 256, label]) * 16
    header = struct.pack(">IIBBBBB", 16, 16, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(row * 16)) + chunk(b"IEND", b"")


@pytest.fixture
def images(tmp_path: Path) -> Path:
    root = tmp_path / "images"
    for number in range(IMAGES):
        folder = root / KINDS[number % len(KINDS)]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.png").write_bytes(png(number, number % len(KINDS)))
    return root


@pytest.fixture
def cache_dir(tmp_path: Path, images: Path) -> Path:
    """Scanned, and empty."""
    directory = tmp_path / "cache"
    with mounted(tmp_path / "mnt", directory, [str(images)]):
        pass
    warm.run(command("clear", directory), check=True, capture_output=True)
    return directory


def read_some(root: Path, seed: int) -> set[str]:
    """They are cached then."""
    some = random.Random(seed).sample(sorted(root.rglob("*.png")), 25)
    for path in some:
        path.read_bytes()
    return {str(path) for path in some}


def as_folder(root: Path) -> SimpleNamespace:
    """What `ImageFolder` has of a directory."""
    found = sorted(root.rglob("*.png"))
    return SimpleNamespace(root=str(root), samples=[(str(path), KINDS.index(path.parent.name)) for path in found])


@pytest.mark.long
def test_each_once_and_what_is_cached_at_each_look_first(
    tmp_path: Path, images: Path, cache_dir: Path, seed: int
) -> None:
    with mounted(tmp_path / "mnt", cache_dir, [str(images)], "--read_ahead=0") as mount:
        data = as_folder(mount.point)
        drawn = iter(sampler := sampler_class()(data, look_again=25))
        names = {index: path for index, (path, _) in enumerate(data.samples)}
        cached = read_some(mount.point, seed)
        first = list(itertools.islice(drawn, len(cached)))
        assert {names[index] for index in first} == cached
        more = read_some(mount.point, seed + 1) - cached  # by somebody else, before the next look
        second = list(itertools.islice(drawn, len(more)))
        assert {names[index] for index in second} == more
        assert sorted([*first, *second, *drawn]) == list(range(len(sampler))) == list(range(IMAGES))


def test_a_file_that_the_mount_has_not_ends_the_epoch(tmp_path: Path, images: Path, cache_dir: Path) -> None:
    with mounted(tmp_path / "mnt", cache_dir, [str(images)]) as mount:
        data = as_folder(mount.point)
        data.samples.append((str(mount.point / "cats" / "gone.png"), 0))
        with pytest.raises(FileNotFoundError, match=r"no cats/gone\.png"):
            list(sampler_class()(data))


@pytest.mark.skipif(find_spec("torch") is None or find_spec("torchvision") is None, reason="pip install torchvision")
def test_an_image_folder_is_read_by_the_pages_own_code(
    tmp_path: Path, images: Path, cache_dir: Path, seed: int
) -> None:
    with mounted(tmp_path / "mnt", cache_dir, [str(images)], "--read_ahead=0") as mount:
        script = tmp_path / "training.py"
        script.write_text(code().replace("/mnt/train", str(mount.point)) + TOLD)
        cached = {int(Path(path).stem) for path in read_some(mount.point, seed)}
        done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stderr
        order = [int(line) for line in done.stdout.split()]
        assert sorted(order) == list(range(IMAGES))
        assert set(order[: len(cached)]) == cached
        again = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=240)
        assert again.returncode == 0, again.stderr
        assert sorted(map(int, again.stdout.split())) == list(range(IMAGES))
        assert again.stdout != done.stdout, "the order is random"
