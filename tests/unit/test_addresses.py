from __future__ import annotations

import socket

import pytest

from tfquiver.grpc_plumbing import addresses, rpc


@pytest.mark.parametrize(
    ("address", "host", "port"), [("a:1", "a", 1), ("[fd00::1]:5040", "fd00::1", 5040), ("10.0.0.1:80", "10.0.0.1", 80)]
)
def test_host_and_port(address: str, host: str, port: int) -> None:
    assert addresses.split(address) == (host, port)
    assert addresses.joined(host, port) == address
    assert addresses.joined(f"[{host}]" if ":" in host else host, port) == address


@pytest.mark.parametrize("address", ["", "a", ":1", "a:", "a:b"])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(ValueError):
        addresses.split(address)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("localhost", True), ("LOCALHOST.", True), ("127.0.0.1", True), ("127.8.8.8", True), ("::1", True),
        ("[::1]", True), ("::ffff:127.0.0.1", True), ("a.localhost", True), ("10.0.0.1", False), ("head", False),
        ("[fd00::1]", False), ("0.0.0.0", False), ("localhost.example.com", False), ("", False),
    ],
)  # fmt: skip
def test_loopback(host: str, loopback: bool) -> None:
    assert addresses.is_loopback(host) == loopback


@pytest.mark.parametrize(("host", "all_of_them"), [("[::]", True), ("::", True), ("0.0.0.0", True), ("::1", False)])
def test_all(host: str, all_of_them: bool) -> None:
    assert addresses.is_all(host) == all_of_them


@pytest.mark.parametrize(
    ("host", "numbers"), [("[::]", ["::"]), ("0.0.0.0", ["0.0.0.0"]), ("127.0.0.1", ["127.0.0.1"])]
)
def test_what_is_listened_on(host: str, numbers: list[str]) -> None:
    assert addresses.to_bind(host) == numbers


@pytest.mark.parametrize("host", ["a..b", f"{'x' * 64}.example"])
def test_what_no_machine_can_be_called_is_not_found(host: str) -> None:
    assert addresses.numbers(f"{host}:1", socket.AF_INET) == []
    for look in (lambda: addresses.towards(host, 1), lambda: addresses.to_bind(host)):
        with pytest.raises(OSError, match="no machine can be called so"):
            look()
    rpc.channel(f"{host}:1,b..c:1").close()


def test_an_address_that_this_machine_lacks_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """As ::1 where the kernel has no IPv6; where it is the only one, listening says what is wrong."""
    named = ["192.0.2.1", "127.0.0.1"]
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda *_, **__: [(socket.AF_INET, 1, 6, "", (number, 0)) for number in named]
    )
    assert addresses.to_bind("localhost") == ["127.0.0.1"]
    del named[1]
    assert addresses.to_bind("localhost") == ["192.0.2.1"]


@pytest.mark.parametrize(
    ("address", "elsewhere"),
    [
        ("10.0.0.3:1", True), ("head:1", True), ("[2001:db8::1]:1", True), ("localhost:1", False), ("[::1]:1", False),
        ("127.0.0.2:1", False), ("unix:/run/c", False), ("unix:/run/c:1", False), ("", False), ("x", False),
        ("x:port", False),
    ],
)  # fmt: skip
def test_which_addresses_may_lead_to_another_machine(address: str, elsewhere: bool) -> None:
    assert addresses.leads_elsewhere(address) is elsewhere


@pytest.mark.parametrize(
    ("address", "each"),
    [("a:1", ["a:1"]), ("a:1,[::1]:2", ["a:1", "[::1]:2"]), ("unix:/run/a,b", ["unix:/run/a,b"])],
)
def test_several_addresses_of_one_server(address: str, each: list[str]) -> None:
    assert addresses.is_address(address)
    assert addresses.each(address) == each


@pytest.mark.parametrize("text", ["a:1,", ",a:1", "a:1,b", "a:1 ,b:2", ",".join(["a:1"] * 9), ""])
def test_what_are_not_several_addresses(text: str) -> None:
    assert not addresses.is_address(text)


def test_one_elsewhere_is_enough_to_lead_there() -> None:
    assert addresses.leads_elsewhere("localhost:1,head:1")
    assert not addresses.leads_elsewhere("localhost:1,[::1]:1")


def test_grpc_is_given_numbers_of_one_kind(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    known = {"one": ["10.0.0.1"], "two": ["10.0.0.2", "fd00::2"], "six": ["fd00::6"]}

    def look_up(host: str, port: int, family: int, kind: int, *_: int) -> list[object]:
        found = [n for n in known.get(host, []) if (":" in n) == (family == socket.AF_INET6)]
        if not found:
            raise OSError("no such name")
        return [(family, kind, 6, "", (number, port)) for number in found]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    assert rpc._target("one:1,two:2") == "ipv4:10.0.0.1:1,10.0.0.2:2"
    assert rpc._target("six:1,two:2") == "ipv4:10.0.0.2:2", "the other one cannot be reached then"
    assert rpc._target("six:1,away:2") == "ipv6:[fd00::6]:1"
    assert rpc._target("one:1,away:2") == "ipv4:10.0.0.1:1"
    assert caplog.messages[2:] == ["one:1,away:2: away:2 has no ipv4 address here now: it will not be tried"]
    assert rpc._target("away:1,gone:2") == "away:1"
    assert rpc._target("one:1") == "one:1", "gRPC looks it up itself"
