"""Where servers are: names are looked up one after the other, and what is no name is known at once."""

from __future__ import annotations

import socket
from collections import Counter
from typing import Any

import pytest

from tfquiver.grpc_plumbing import addresses
from tfquiver.tensorflow_dispatcher_and_worker_connections import remote_ends
from tfquiver.tensorflow_dispatcher_and_worker_connections.remote_ends import RemoteEnds

NAMES = [f"gone{number}.invalid:1" for number in range(300)]


def test_of_many_names_each_is_looked_up_once_and_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before each look-up all of them were gone through: of a thousand it took seconds."""
    looked_up, read = Counter[str](), Counter[str]()
    is_number = addresses.is_number

    def none(host: str, *_: Any, **__: Any) -> list[Any]:
        looked_up[host] += 1
        raise socket.gaierror

    def counted(host: str) -> bool:
        read[host] += 1
        return is_number(host)

    monkeypatch.setattr(socket, "getaddrinfo", none)
    monkeypatch.setattr(addresses, "is_number", counted)
    remote_ends._is_number.cache_clear()
    ends = RemoteEnds()
    ends.of(NAMES)
    assert ends._looking_up is not None
    ends._looking_up.join(60)
    hosts = {name.partition(":")[0] for name in NAMES}
    assert looked_up == dict.fromkeys(hosts, 1)
    assert set(read) == hosts and max(read.values()) <= 2, "two threads may begin at the same time"
