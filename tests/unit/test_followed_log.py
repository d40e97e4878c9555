"""What is logged is shown whole: from the end of a log of any length, and on into the file that takes its place."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfquiver.cli.up_stop_logs_clear import followed_log
from tfquiver.cli.up_stop_logs_clear.followed_log import FollowedLog


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "node.log"


@given(st.lists(st.binary(max_size=40).map(lambda line: line.replace(b"\n", b"")), max_size=30), st.integers(0, 33))
def test_the_last_lines_wherever_blocks_end(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], most: int
) -> None:
    path = tmp_path_factory.mktemp("log") / "node.log"
    path.write_bytes(b"".join(line + b"\n" for line in lines) + b"begun")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(followed_log, "_BACK_BYTES", 7)
        log, whole = FollowedLog(path), FollowedLog(path)
        assert log.last(most) == (whole.last(1000)[-most:] if most else [])
    with path.open("ab") as file:
        file.write(b" and ended\n")
    assert log.more() == ["begun and ended"]
    log.close()
    whole.close()


def test_the_end_of_a_long_log_takes_no_memory_for_the_rest(path: Path) -> None:
    with path.open("wb") as file:
        for number in range(64):
            file.write(b"%d %s\n" % (number, b"x" * 100) * 10_000)
    tracemalloc.start()
    log = FollowedLog(path)
    assert log.last(2) == [f"63 {'x' * 100}"] * 2
    assert log.more() == []
    assert tracemalloc.get_traced_memory()[1] < 8 << 20 < path.stat().st_size
    tracemalloc.stop()
    log.close()


def test_nothing_is_lost_while_a_log_is_put_aside(path: Path) -> None:
    path.write_text("one\n")
    log = FollowedLog(path)
    assert log.last(9) == ["one"]
    with path.open("a") as file:
        file.write("two\nthr")
    path.rename(path.with_suffix(".old"))
    assert log.more() == ["two"], "and the next one is not there yet"
    assert log.more() == []
    with path.with_suffix(".old").open("a") as file:
        file.write("ee\nfour")
    path.write_text("five\n")
    assert log.more() == ["three"]
    assert log.more() == ["four", "five"]
    log.close()


def test_a_log_that_was_cut_to_nothing_is_read_from_its_beginning(path: Path) -> None:
    path.write_text("one\ntwo\n")
    log = FollowedLog(path)
    assert log.last(1) == ["two"]
    path.write_text("anew\n")
    assert log.more() == ["anew"]
    log.close()


def test_one_that_comes_later_is_read_when_it_is_there(path: Path) -> None:
    log = FollowedLog(path, "node: ")
    assert log.last(5) == log.more() == []
    path.write_text("here\n")
    assert log.more() == ["node: here"]
    log.close()
