"""A shard of records by weight that is sent again says again which of its records it is of."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

import tfquiver
from tests.support import numbered
from tests.support.cluster import Cluster
from tests.support.reader_client import Connection
from tfquiver import CutPolicy
from tfquiver.messages_and_binary_formats import reader_frames as frames

paths = numbered.fixture(1, 200, 500)


def test_what_comes_damaged_to_a_reader_that_has_come_again_is_sent_with_its_picks(
    tmp_path: Path, paths: list[Path]
) -> None:
    with Cluster(tmp_path / "cluster", workers=0) as cluster:
        assert cluster.node is not None
        made = tfquiver.dataset(
            paths, service=cluster.coordinator.address, cache_dir=cluster.cache_dir,
            first_use=tfquiver.FirstUse(cut=CutPolicy(5_000, 10_000, 20_000)),
            order=tfquiver.Weighted(np.arange(200, dtype=np.float32)),
        )  # fmt: skip
        origin = made._tfquiver_origin
        socket = cluster.node.ready["socket"]
        opening = frames.Open(
            "", origin.session_key, origin.registered.digest_id, "", "reader", 1, frames.Wish(seed=origin.options.seed),
            False,
        )  # fmt: skip
        with Connection(socket) as first:
            first.hello()
            first.send(opening)
            assert isinstance(first.receive()[0], frames.Opened)
            picks, shard = one_shard(first)
            assert picks is not None
        with Connection(socket) as again:
            again.hello()
            again.send(frames.Held((shard,)))
            again.send(opening)
            assert isinstance(again.receive()[0], frames.Opened)
            again.send(frames.Bad(shard))
            while True:
                picks_again, number = one_shard(again)
                if number == shard:
                    assert picks_again == picks
                    break
                assert picks_again is not None


def one_shard(connection: Connection) -> tuple[frames.Picks | None, int]:
    """The next one, and the picks that came before it."""
    picks = None
    while True:
        frame, descriptor = connection.receive()
        if descriptor >= 0:
            os.close(descriptor)
        if isinstance(frame, frames.Picks):
            picks = frame
        elif isinstance(frame, frames.Shard):
            return picks, frame.shard
