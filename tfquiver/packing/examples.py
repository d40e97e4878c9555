"""The records of one part, as serialized `tf.train.Example`s; errors name the file and what in it is wrong."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from tfquiver import errors, named_files
from tfquiver.packing.example import MOST_RECORD_BYTES, Value, serialized
from tfquiver.packing.sources import ARROW, IMAGES, PARQUET, TAR, Part
from tfquiver.packing.tables import of_arrow, of_parquet
from tfquiver.packing.tars import of_tar

_IMAGES_BEGIN = re.compile(rb"\xff\xd8\xff|\x89PNG\r\n\x1a\n|GIF8[79]a|BM|RIFF....WEBP", re.DOTALL)


def of_part(part: Part) -> Iterator[bytes]:
    """Raises DataLossError (a damaged file), InvalidArgumentError (what no feature can hold), PermissionError_ and
    others of its files."""
    kinds = {IMAGES: _of_images, TAR: of_tar, PARQUET: of_parquet, ARROW: of_arrow}
    try:
        yield from kinds[part.kind](part)
    except OSError as error:
        file = error.filename if isinstance(error.filename, str) else str(part.files[0])
        if error.errno is None:  # pyarrow's of a damaged file
            raise errors.DataLossError(f"{file}: {error}") from error
        raise named_files.not_read(error, file, file) from error


def _of_images(part: Part) -> Iterator[bytes]:
    assert part.root is not None
    labels = {name: label for label, name in enumerate(part.classes)}
    for path in part.files:
        name = path.relative_to(part.root)
        features: dict[str, Value] = {
            "image/encoded": _image(path),
            "image/filename": os.fsencode(name),
            "image/format": path.suffix[1:].lower().encode(),
        }
        if len(name.parts) > 1:
            features |= {"image/class/text": os.fsencode(name.parts[0]), "image/class/label": [labels[name.parts[0]]]}
        yield serialized(features)


def _image(path: Path) -> bytes:
    """Of another format than its name says, too: ImageNet has a PNG that is called .JPEG, and decoders look inside."""
    with path.open("rb") as file:
        size_bytes = os.fstat(file.fileno()).st_size
        if size_bytes > MOST_RECORD_BYTES:
            raise errors.InvalidArgumentError(f"{path}: has {size_bytes} bytes; 1 GiB is the most")
        content = file.read(size_bytes + 1)  # which takes as much memory, however little there is
    if len(content) > size_bytes:
        raise errors.UnavailableError(f"{path}: grew while it was read: pack again when it is whole")
    if not _IMAGES_BEGIN.match(content):
        raise errors.DataLossError(
            f"{path}: begins as no JPEG, PNG, GIF, BMP or WebP does: mend it, or take it out of the folder"
        )
    return content
