from __future__ import annotations

import asyncio

import pytest

from tfquiver import errors
from tfquiver.service.node import own_hosts


def choose(bind: str, advertise: str, coordinator: str, found: str = "10.0.0.7") -> tuple[str, str]:
    hosts = asyncio.run(
        own_hosts.choose(bind, advertise, coordinator, deadline_s=0.0, towards=lambda host, port: found)
    )
    return hosts.bind, hosts.advertise


@pytest.mark.parametrize("coordinator", ["", "unix:/x", "localhost:5040", "127.0.0.1:5040", "[::1]:5040"])
def test_on_one_machine_nobody_else_is_let_in(coordinator: str) -> None:
    assert choose("", "", coordinator) == ("localhost", "localhost")
    assert choose("127.0.0.1", "", coordinator) == ("127.0.0.1", "127.0.0.1")


@pytest.mark.parametrize(
    ("flags", "found", "hosts"),
    [
        (("", ""), "10.0.0.7", ("[::]", "10.0.0.7")),
        (("", ""), "fd00::7", ("[::]", "fd00::7")),
        (("", ""), "127.0.0.1", ("[::]", "head")),  # the coordinator's own machine
        (("0.0.0.0", ""), "10.0.0.7", ("0.0.0.0", "10.0.0.7")),
        (("[::]", ""), "10.0.0.7", ("[::]", "10.0.0.7")),
        (("10.0.0.9", ""), "10.0.0.7", ("10.0.0.9", "10.0.0.9")),
        (("", "worker-3"), "10.0.0.7", ("[::]", "worker-3")),
    ],
)
def test_in_a_cluster_peers_get_an_address_that_they_can_use(
    flags: tuple[str, str], found: str, hosts: tuple[str, str]
) -> None:
    assert choose(*flags, "head:5040", found) == hosts


@pytest.mark.parametrize(
    ("bind", "advertise"),
    [("localhost", ""), ("127.0.0.1", ""), ("[::1]", ""), ("", "localhost"), ("", "0.0.0.0"), ("", "[::]")],
)
def test_what_leads_peers_to_themselves_is_refused(bind: str, advertise: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="give --advertise_host"):
        choose(bind, advertise, "head:5040")


def test_a_coordinator_that_cannot_be_found_is_named() -> None:
    def nowhere(host: str, port: int) -> str:
        raise OSError("Name or service not known")

    with pytest.raises(errors.UnavailableError, match="--coordinator=head:5040: no way there: Name or service"):
        asyncio.run(own_hosts.choose("", "", "head:5040", deadline_s=0.0, towards=nowhere))


@pytest.mark.parametrize("coordinator", ["gone:5040,head:5040", "head:5040,gone:5040", "localhost:5040,head:5040"])
def test_one_of_several_coordinators_is_enough(coordinator: str) -> None:
    def towards(host: str, port: int) -> str:
        if host == "gone":
            raise OSError("Name or service not known")
        return "10.0.0.7"

    hosts = asyncio.run(own_hosts.choose("", "", coordinator, deadline_s=0.0, towards=towards))
    assert (hosts.bind, hosts.advertise) == ("[::]", "10.0.0.7")
