"""What one user may have of a node's room for streams: whoever takes all it can leaves some to who comes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfquiver import errors
from tfquiver.service.node.shared_batches import streams
from tfquiver.service.node.shared_batches.shares import grant, left, too_large
from tfquiver.service.node.shared_batches.spill_files import SpillFiles
from tfquiver.tensorflow_client.shared_batches.troubles import Troubles

MANY = 500


def node() -> streams.Streams:
    return streams.Streams(SpillFiles(Path("unused"), 1 << 30, lambda size_bytes: None))


def take_all(of: streams.Streams, uid: int, window_bytes: int) -> tuple[list[streams.Stream], str]:
    taken: list[streams.Stream] = []
    for number in range(MANY):
        try:
            taken.append(of.stream(uid, f"{number}", bytes(32), window_bytes, 1 << 30))
        except errors.ResourceExhaustedError as error:
            return taken, str(error)
    raise AssertionError("all that it asked for")


@pytest.mark.parametrize("window_bytes", [streams.LEAST_WINDOW_BYTES, 256 << 20, 4 << 30])
def test_a_user_that_takes_all_it_can_leaves_some_to_others(window_bytes: int) -> None:
    of = node()
    first, said = take_all(of, 1, window_bytes)
    assert said.startswith(f"stream '{len(first)}': user 1 has {len(first)} streams with ")
    assert "room is kept for other users" in said
    of.forget(first.pop(0))
    assert of.stream(1, "again", bytes(32), streams.LEAST_WINDOW_BYTES, 0), "what it gave back is its own"
    for uid in range(2, 5):
        window = of.stream(uid, "mine", bytes(32), window_bytes, 1 << 30).window
        assert window.memory_bytes >= streams.LEAST_WINDOW_BYTES and window.spill_bytes and window.most_segments


@pytest.mark.parametrize("window_bytes", [streams.LEAST_WINDOW_BYTES, 256 << 20, 4 << 30])
def test_who_comes_when_others_have_all_is_told_that_not_that_room_is_kept(window_bytes: int) -> None:
    of, taken = node(), list[int]()
    for uid in range(MANY):
        its, said = take_all(of, uid, window_bytes)
        if not its:
            break
        taken.append(len(its))
    assert "room is kept" not in said and "a stream is forgotten a minute after" in said
    assert f" of this node are taken, by {len(taken)} users: {sum(taken)} streams with " in said
    if window_bytes == streams.LEAST_WINDOW_BYTES:
        assert taken == [48, 12, 3, 1]
        assert said.startswith("stream '0': all 64 streams of this node are taken, by 4 users: 64 streams with 4")


def test_one_that_is_alone_has_most_of_it() -> None:
    assert len(take_all(node(), 1, streams.LEAST_WINDOW_BYTES)[0]) == streams.MOST_STREAMS * 3 // 4
    windows = [stream.window.memory_bytes for stream in take_all(node(), 1, 256 << 20)[0]]
    assert windows[:5] == [256 << 20] * 5 and sum(windows) <= streams.MOST_MEMORY_BYTES * 3 // 4


@given(st.integers(1, 1 << 40), st.data())
def test_no_more_than_there_is(total: int, data: st.DataObject) -> None:
    used = data.draw(st.integers(0, total))
    own = data.draw(st.integers(0, used))
    assert 0 <= grant(total, used, own) <= left(total, used, own) <= total - used


def test_who_makes_too_large_a_batch_is_told_what_helps() -> None:
    """A larger window where there is one, and never a smaller one."""
    said = too_large(100 << 20, 256 << 20, 256 << 20)
    assert "window_bytes= must be four times a batch" in said
    less = too_large(384 << 20, 1 << 30, 2 << 30)
    assert "is all that this node has" in less and "smaller batches" in less and "window_bytes" not in less
    for one in (said, less):
        told = str(Troubles("s", "job").of(errors.NeverFitsError(one), 0, 0))
        assert told == f"stream 's' of job 'job', epoch 0, batch 0: {one}"
    assert "smaller windows" in str(Troubles("s", "").of(errors.ResourceExhaustedError("64 streams"), 0, 0))
