"""What the board says of each chunk one by one, and of all at once, is the same."""

from __future__ import annotations

import random

import numpy as np

from tfquiver.service.coordinator.chunk_rotation.board import Board

SIZES = (4, 6, 8, 2)


def check(board: Board) -> None:
    columns = board.columns
    assert columns.sizes.tolist() == list(SIZES)
    assert columns.resident.tolist() == list(board.resident)
    assert columns.wanted.tolist() == list(board.wanted) == [int(n) for n in (board.pending > 0).sum(axis=0)]
    assert columns.needed_bytes.tolist() == list(board.needed_bytes) == board.pending.sum(axis=0).tolist()
    for session, needs in board.sessions.items():
        assert list(needs.pending) == board.pending[board.row(session)].tolist()
    assert board.pending_bytes.tolist() == board.pending.sum(axis=1).tolist()


def test_columns_follow_whatever_sessions_and_shards_do() -> None:
    rng, board = random.Random(1), Board(SIZES, 20)
    of_some = board.follow()
    chunks = frozenset[int]()
    for step in range(400):
        session, chunk = f"session-{rng.randrange(20)}", rng.randrange(len(SIZES))
        if session not in board.sessions:
            board.session_opened(session, [rng.randrange(size + 1) for size in SIZES])
        elif step % 7 == 0:
            board.session_finished(session)
        elif board.sessions[session].pending[chunk]:
            board.took(session, chunk, 1)
        elif board.sessions[session].pending[chunk] < SIZES[chunk]:
            board.gave_back(session, chunk, 1)
        if board.complete(chunk):
            board.shard_gone(chunk, 1)
        else:
            board.shard_resident(chunk, 1)
        check(board)
        if step % 5 == 0:
            chunks ^= {rng.randrange(len(SIZES)) for _ in range(2)}
        expected = board.pending[:, sorted(chunks)].sum(axis=1)
        assert of_some.of(chunks, len(board.names)).tolist() == expected.tolist()


def test_one_that_opens_again_is_counted_once() -> None:
    board = Board(SIZES, 20)
    for _ in range(2):
        board.session_opened("a", SIZES)
    check(board)
    assert np.all(board.columns.wanted == 1)
    board.session_finished("a")
    check(board)
    assert not board.columns.needed_bytes.any()
