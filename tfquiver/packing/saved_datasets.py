"""Folders that Hugging Face's `datasets` has saved: `state.json` says which Arrow files are the data, and
`dataset_dict.json` which folders are splits. A piece that is missing is told, and what they do not name is no data: a
larger save before this one has left it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tfquiver import errors, named_files
from tfquiver.packing.folders import Found

_STATE, _INFO, _SPLITS = "state.json", "dataset_info.json", "dataset_dict.json"
NOTES = frozenset({_STATE, _SPLITS})
_MOST_BYTES = 64 << 20
_MEND = "fetch it, or save the data set again"


def data_of(arrows: Sequence[Found], files: Iterable[Found]) -> list[Found]:
    """Those of `arrows` that are data. `files`: all that were found and are called as one of NOTES.

    Raises DataLossError: a file or a split that is named is not there, or what names them is damaged;
    InvalidArgumentError: rows are picked by a table of indices.
    """
    named: dict[Path, set[str]] = {}
    for file in files:
        if file.path.name == _SPLITS:
            _check_splits(file.path)
        elif file.path.name == _STATE and (names := _names(file.path)) is not None:
            named[file.path.parent] = names
    there = {one.path for one in arrows}
    for folder, names in sorted(named.items()):
        if missing := sorted(name for name in names if folder / name not in there):
            raise errors.DataLossError(
                f"{folder / missing[0]}: is not there, and {_STATE} beside it names it (of {len(names)} "
                f"files {len(missing)} are missing): {_MEND}"
            )
    return [one for one in arrows if one.path.name in named.get(one.path.parent, (one.path.name,))]


def _names(state: Path) -> set[str] | None:
    """The files' names; None: it is somebody else's `state.json`."""
    said = _read(state)
    if "_data_files" not in said if isinstance(said, dict) else not (state.parent / _INFO).exists():
        return None
    try:
        names = {str(one["filename"]) for one in said["_data_files"]}
    except (TypeError, KeyError):
        raise errors.DataLossError(f"{state}: is damaged: {_MEND}") from None
    if said.get("_indices_data_files"):
        raise errors.InvalidArgumentError(
            f"{state}: the rows of this data set are picked by a table of indices, of an older datasets: save it again "
            "(datasets.load_from_disk(...).flatten_indices().save_to_disk(...))"
        )
    return names


def _check_splits(path: Path) -> None:
    said = _read(path)
    splits = said.get("splits") if isinstance(said, dict) else None
    if not isinstance(splits, list) or not all(isinstance(one, str) for one in splits):
        raise errors.DataLossError(f"{path}: is damaged: {_MEND}")
    for split in splits:
        if not (path.parent / split / _STATE).is_file():
            raise errors.DataLossError(
                f"{path.parent / split}: has no {_STATE}, and {_SPLITS} beside it names this split: {_MEND}"
            )


def _read(path: Path) -> Any:
    """None: it is no JSON, or too large."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            return None
        return json.loads(path.read_bytes())
    except OSError as error:
        raise named_files.not_read(error, str(path), path) from error
    except (ValueError, RecursionError):
        return None
