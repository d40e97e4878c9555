"""What nodes tell of mounts: while a node is away, and from one that says whatever it likes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tfquiver.clock import ManualClock
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.proto.tfquiver.v1.coordinator_pb2 import MountReport
from tfquiver.service.coordinator.nodes_mounts_dispatchers.membership import Membership
from tfquiver.service.coordinator.nodes_mounts_dispatchers.mounts import KEPT_S, MAX_MOUNTS, MOST_KEPT, Mounts

ID, OTHER = b"i" * 32, b"o" * 32


def shows(*digest_ids: bytes) -> list[MountReport]:
    return [MountReport(digest_id=one, mounts=1, idle_ms=0) for one in digest_ids]


def test_what_is_mounted_is_read_while_its_node_is_started_again() -> None:
    clock = ManualClock()
    membership = Membership(clock, 10.0)
    mounts, node = membership.mounts, types_pb2.NodeInfo(node_id="n", quota_bytes=1)
    for end in ("killed", "stopped", "lost"):
        membership.heartbeat(node, f"before {end}")
        mounts.take("n", shows(ID, OTHER))
        if end == "stopped":
            assert membership.leave("n", f"before {end}")
        if end == "lost":
            clock.advance(10.0)
            assert membership.expire() == ["n"]
        membership.heartbeat(node, f"after it was {end}")
        mounts.take("n", [])
        assert mounts.said([ID], "it") == "1 mount, or trainer that materializes it, reads it", end
        mounts.take("n", shows(ID))
        assert mounts.said([ID], "it").startswith("1 mount"), "not counted twice"
        mounts.take("n", [])
        assert not mounts.said([ID], "it"), "it has come back, and was unmounted"
        assert mounts.said([OTHER], "it"), "it has not come back yet"
        clock.advance(KEPT_S)
        assert not mounts.said([ID, OTHER], "it"), "nor will it"


@pytest.mark.slow
@pytest.mark.long
def test_what_a_node_says_takes_bounded_memory() -> None:
    mounts = Mounts(ManualClock())
    mounts.take("n", shows(ID))
    for some in batches(2 * MOST_KEPT):
        mounts.take("rogue", shows(*some))
        mounts.take("n", shows(ID))
    assert len(mounts.shown()) == MOST_KEPT
    assert mounts.is_read(ID) and ID in mounts.shown(), "what is told all the time stays"


def batches(count: int) -> Iterator[list[bytes]]:
    for at in range(0, count, MAX_MOUNTS):
        yield [number.to_bytes(32, "little") for number in range(at, at + MAX_MOUNTS)]
