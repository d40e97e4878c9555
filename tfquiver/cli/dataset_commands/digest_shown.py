"""What `tfquiver digest build` and `show` print of a digest: whole in a pipe, in a terminal no wider than it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.cells import cell_len, chop_cells
from rich.console import Console

from tfquiver.digests import formats
from tfquiver.digests.digest import Digest
from tfquiver.plain_text import plain
from tfquiver.sizes_durations_amounts.amounts import many

_MANY = 10
_APART = "  "
_GENERATION = "generation"


def summary(digest: Digest) -> dict[str, Any]:
    return {
        "name": digest.name,
        "content_root": digest.content_root.hex(),
        "digest_id": digest.digest_id.hex(),
        "format": digest.format,
        "shards": digest.num_shards,
        "records": digest.num_records,
        "raw_bytes": digest.size_bytes,
    }


def shard(digest: Digest, number: int) -> dict[str, Any]:
    """Where it is. Raises as `digest.shard`."""
    found = digest.shard(number)
    return {
        "file": found.file.uri, "offset": found.offset, "length_bytes": found.length_bytes, "records": found.records,
    }  # fmt: skip


def say_shard(digest: Digest, number: int, console: Console) -> None:
    _say([f"shard {number}", *_fields(shard(digest, number), console.width)], console)


def say(digest: Digest, path: Path, with_files: bool, console: Console) -> None:
    about = {**summary(digest), "files": len(digest.files)}
    if digest.num_shards:
        about["mean shard"] = f"{digest.size_bytes // digest.num_shards:,} bytes"
    elif digest.files:
        about["note"] = formats.NOTHING
    _say([plain(path), *_fields(about, console.width), ""], console)
    if not with_files and len(digest.files) > _MANY:
        _say([f"{many(len(digest.files), 'file')}; --files lists them"], console)
    elif digest.files:
        _say(_files(digest, console.width), console)


def _say(lines: Sequence[str] | Iterator[str], console: Console) -> None:
    for line in lines:
        console.print(line, soft_wrap=True)


def _fields(fields: dict[str, Any], width: int) -> Iterator[str]:
    names = [name.replace("_", " ") for name in fields]
    left = max(map(len, names))
    for name, value in zip(names, fields.values(), strict=True):
        said = f"{value:,}" if isinstance(value, int) else plain(value)
        yield from _folded(f"{name:<{left}}{_APART}", said, width)


def _files(digest: Digest, width: int) -> Iterator[str]:
    """A line each, the name last. What does not fit: first the folder that all are in stands above, then the
    generations are left out, then names are folded."""
    uris = [plain(file.uri, 1 << 20) for file in digest.files]
    columns = {
        "bytes": [f"{file.size_bytes:,}" for file in digest.files],
        "shards": [f"{len(digest.file_shards(index)):,}" for index in range(len(digest.files))],
        "compression": [plain(file.compression) for file in digest.files],
        _GENERATION: [plain(file.generation) for file in digest.files],
    }
    widest = {name: max(len(name), *map(cell_len, its)) for name, its in columns.items()}
    longest = max(map(cell_len, uris))
    left = sum(widest.values()) + len(_APART) * len(widest)
    if left + longest > width:
        if base := _folder(uris):
            yield f"in {base}"  # whole, as it is to be copied
        uris = [uri.removeprefix(base) for uri in uris]
        if left + max(map(cell_len, uris)) > width:
            del columns[_GENERATION]
    yield _APART.join([*(_placed(name, name, widest) for name in columns), "file"])
    for row, uri in zip(zip(*columns.values(), strict=True), uris, strict=True):
        placed = (_placed(text, name, widest) for name, text in zip(columns, row, strict=True))
        yield from _folded(f"{_APART.join(placed)}{_APART}", uri, width)
    if _GENERATION not in columns:
        yield "(in a pipe: with generations, too)"


def _folder(uris: Sequence[str]) -> str:
    """What all begin with, up to a slash: the first and the last of all have no more in common. "": hardly anything."""
    first, last = min(uris), max(uris)
    same = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    base = first[: first.rfind("/", 0, same) + 1]
    return base if base.strip("/").partition("://")[2] else ""


def _placed(text: str, name: str, widest: dict[str, int]) -> str:
    space = " " * (widest[name] - cell_len(text))
    return f"{space}{text}" if name in ("bytes", "shards") else f"{text}{space}"


def _folded(begins: str, text: str, width: int) -> Iterator[str]:
    """Behind `begins`, in as many lines as it takes; names of files and digits have no words to break them between."""
    room = max(width - cell_len(begins), 10)
    for part in chop_cells(text, room) or [""]:
        yield f"{begins}{part}".rstrip()
        begins = " " * cell_len(begins)
