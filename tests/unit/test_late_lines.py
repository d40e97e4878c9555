"""Lines of a log that nobody waits for."""

from __future__ import annotations

import os
import select

from tfquiver.log_files_and_lines.late_lines import LateLines


def test_who_writes_waits_for_nothing_and_is_told_what_was_left_out() -> None:
    reads, writes = os.pipe()
    written = 0
    while written < 1 << 16:  # the pipe is full: who writes to it hangs
        written += os.write(writes, bytes(1 << 12))
    with os.fdopen(writes, "w") as stream:
        late = LateLines(stream, most=4)
        for number in range(20):
            late.write(f"line {number}\n")
            late.flush()
        assert not late.written(0.01)
        text = b""
        while not late.written(0.01):
            text += os.read(reads, 1 << 16) if select.select([reads], [], [], 0.01)[0] else b""
        late.write("line 20\n")
        assert late.written(10)
        text += os.read(reads, 1 << 16)
        late.close()
    os.close(reads)
    assert b"line 0\n" in text and b"line 19\n" not in text
    assert b"lines of the log were left out" in text


def test_all_is_written_in_order() -> None:
    reads, writes = os.pipe()
    with os.fdopen(writes, "w") as stream:
        late = LateLines(stream)
        for number in range(100):
            late.write(f"{number}\n")
        late.close()
    with os.fdopen(reads) as lines:
        assert lines.read().split() == [str(number) for number in range(100)]


def test_a_child_that_is_forked_writes_at_once() -> None:
    reads, writes = os.pipe()
    with os.fdopen(writes, "w") as stream:
        late = LateLines(stream)
        if not (child := os.fork()):
            late.write("child\n")
            late.flush()
            os._exit(0)
        os.waitpid(child, 0)
        late.close()
    with os.fdopen(reads) as lines:
        assert lines.read() == "child\n"
