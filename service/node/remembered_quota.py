"""Which quota a node has: that of its command line, else the one that the directory's last node was given."""

from __future__ import annotations

from pathlib import Path

from absl import logging

from tfquiver import errors
from tfquiver.node_daemon_and_notes_in_directories import quota_file
from tfquiver.sizes_durations_amounts import sizes
from tfquiver.sizes_durations_amounts.amounts import of_bytes


def chosen(directory: Path, flag: str, is_given: bool) -> int | None:
    """In bytes; None: by what is free. The next node there will know it, and the log says which it is and why.

    Args:
      flag: --quota; "" where it `is_given`: by what is free, from now on.

    May wait for the disk.
    """
    if is_given:
        quota_bytes = sizes.parse_bytes(flag) if flag else None
        _remember(directory, quota_bytes)
        if quota_bytes is not None:
            logging.info("quota: %s (--quota=%s)", of_bytes(quota_bytes), flag)
        return quota_bytes
    try:
        quota_bytes = quota_file.read(directory)
    except errors.DataLossError as error:
        logging.warning("which quota the last node here was given is not known: %s", error)
        return None
    if quota_bytes is not None:
        logging.info(
            "quota: %s, as the last node here that was given one (%s); --quota=SIZE gives another, --quota= "
            "80 %% of what is free", of_bytes(quota_bytes), quota_file.FILE,
        )  # fmt: skip
    return quota_bytes


def _remember(directory: Path, quota_bytes: int | None) -> None:
    """Writes nothing where that is said already: the disk may be full."""
    try:
        if quota_file.read(directory) == quota_bytes:
            return
    except errors.DataLossError:
        pass  # it is written anew
    try:
        quota_file.write(directory, quota_bytes)
    except errors.TfquiverError as error:
        logging.warning("the next node here will not know of this quota: %s", error)
