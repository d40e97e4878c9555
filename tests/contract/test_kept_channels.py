"""Who asks the same servers again and again connects once."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from tests.support.cluster import Cluster, wait_until
from tfquiver import errors
from tfquiver.cli.status_asked_watched_explained import status
from tfquiver.grpc_plumbing import kept_channels
from tfquiver.grpc_plumbing.kept_channels import KeptChannels

_ESTABLISHED = "01"


def ports(port: int) -> set[str]:
    """This process's ends of established connections to that port."""
    sockets = set[str]()
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the directory's own is closed by now
            sockets.add(str(descriptor.readlink()))
    rows = [line.split() for table in ("tcp", "tcp6") for line in Path(f"/proc/net/{table}").read_text().splitlines()]
    return {
        row[1]
        for row in rows
        if row[2].endswith(f":{port:04X}") and row[3] == _ESTABLISHED and f"socket:[{row[9]}]" in sockets
    }


def test_a_cluster_that_is_watched_is_connected_to_once_and_found_again(tmp_path: Path) -> None:
    with Cluster(tmp_path / "cluster", workers=0) as cluster, KeptChannels() as kept:
        node = cluster.node
        assert node is not None
        address = cluster.coordinator.address
        control = int(str(node.ready["control"]).rpartition(":")[2])

        def problems() -> list[str]:
            return [line for line in status.collect(address, kept=kept)["problems"] if "node" in line]

        assert not problems()
        first = ports(cluster.coordinator.port), ports(control)
        assert [len(one) for one in first] == [1, 1]
        for _ in range(3):
            assert not problems()
        assert (ports(cluster.coordinator.port), ports(control)) == first
        node.kill()
        assert problems(), "it is dead"
        node.start()
        wait_until(lambda: not problems(), "it is back, at another port perhaps")
        assert len(kept) == 2, "who is nobody's node any more is not kept"


def test_who_does_not_answer_is_not_kept() -> None:
    with KeptChannels() as kept:
        with pytest.raises(errors.UnavailableError), kept.channel("localhost:1"):
            raise errors.UnavailableError("silent")
        assert not len(kept)
        with kept.channel("localhost:1"):
            pass
        kept.drop("localhost:1")
        assert not len(kept)


def test_there_are_so_many_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_channels, "MOST", 2)
    with KeptChannels() as kept:
        for port in (1, 2, 3):
            with kept.channel(f"localhost:{port}"):
                pass
        assert len(kept) == 2
