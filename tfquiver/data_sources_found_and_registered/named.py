"""Data sets that have names, as jobs name them: what may be a name, and what of it there is to read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from absl import logging

from tfquiver import errors
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.users_arguments_checked.option_groups import Progress

if TYPE_CHECKING:
    from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb2
    from tfquiver.proto.tfquiver.v1 import types_pb2

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_SAY_EVERY_S = 5


def may_be_name(source: str) -> bool:
    """Whether a data set may be meant. A file of this directory that is called so comes first: write ./NAME, or NAME
    where there is none."""
    return bool(_NAME.fullmatch(source)) and not Path(source).is_file()


def version_of(found: pb2.NamedDataset, progress: Progress | None) -> types_pb2.Dataset | None:
    """What is read of it; None: wait, its first version is being scanned. Raises InUseError."""
    from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb2  # only who has a name needs it

    name = found.spec.name
    if found.state == pb2.NamedDataset.STATE_DELETING:
        raise errors.InUseError(f"data set {name} is being deleted")
    if found.HasField("dataset"):
        if found.state == pb2.NamedDataset.STATE_STALE:
            why = f": {found.reason}" if found.reason else ""  # of an older change it is not said any more
            logging.warning("data set %s: its source has changed%s; tfquiver dataset refresh", name, why)
        return found.dataset
    if found.state == pb2.NamedDataset.STATE_FAILED:
        raise errors.InUseError(f"data set {name} could not be scanned: {found.reason}")
    if found.reason:
        every_n_seconds(logging.WARNING, "data set %s: %s", _SAY_EVERY_S, name, found.reason)
    if progress is not None and found.total_bytes:
        progress(found.done_bytes, found.total_bytes)
    return None
