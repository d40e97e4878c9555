"""Which quota a node has, and what the next one in its directory knows of it."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from tfquiver import errors
from tfquiver.node_daemon_and_notes_in_directories import quota_file
from tfquiver.service.node import remembered_quota


def chosen(at: Path, quota: str | None) -> int | None:
    """Of a node with --quota=QUOTA; None: without."""
    return remembered_quota.chosen(at, quota or "", quota is not None)


def test_what_is_given_holds_until_something_else_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "absl")
    assert chosen(tmp_path, None) is None, "by what is free"
    assert [chosen(tmp_path, quota) for quota in ("1MiB", None, None)] == [1 << 20] * 3
    assert "quota: 1.0 MB, as the last node here that was given one (quota.json)" in caplog.text
    assert [chosen(tmp_path, quota) for quota in ("0", None)] == [0, 0], "a gateway"
    assert [chosen(tmp_path, quota) for quota in ("", None)] == [None, None], "--quota= takes it back"
    assert not list(tmp_path.iterdir())


def test_what_is_remembered_already_is_not_written_again(tmp_path: Path) -> None:
    """The disk may be full."""
    chosen(tmp_path, "1MiB")
    before = (tmp_path / quota_file.FILE).stat().st_ino
    chosen(tmp_path, "1MiB")
    assert (tmp_path / quota_file.FILE).stat().st_ino == before


@pytest.mark.parametrize("text", [
    "", "{", "[]", "null", "7", '{"version": 1}', '{"version": 2, "quota_bytes": 1}', "[" * 4000,
    *(json.dumps({"version": 1, "quota_bytes": wrong}) for wrong in (-1, 1 << 60, 1.5, True, "1", None, [1])),
])  # fmt: skip
def test_a_file_that_says_none_is_told_of_and_written_anew(
    text: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / quota_file.FILE).write_text(text)
    assert chosen(tmp_path, None) is None
    assert "quota.json says no quota" in caplog.text and "--quota" in caplog.text
    assert [chosen(tmp_path, "1MiB"), chosen(tmp_path, None)] == [1 << 20] * 2


def test_links_are_not_followed_and_a_failed_write_is_no_failed_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text('{"version": 1, "quota_bytes": 5}')
    at = tmp_path / "cache"
    at.mkdir()
    (at / quota_file.FILE).symlink_to(elsewhere)
    with pytest.raises(errors.DataLossError, match=r"quota\.json"):
        quota_file.read(at)
    assert [chosen(at, "1MiB"), chosen(at, None)] == [1 << 20] * 2
    assert "5" in elsewhere.read_text(), "what the link led to is as it was"
    (at / quota_file.FILE).unlink()
    (at / quota_file.FILE).mkdir()
    assert chosen(at, "2MiB") == 2 << 20
    assert "the next node here will not know of this quota" in caplog.text
