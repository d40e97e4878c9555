"""Tests that run side by side give their servers ports of their own (tests/support/fixed_ports.py)."""

from __future__ import annotations

from tests.support import fixed_ports


def test_no_two_processes_have_a_port_in_common() -> None:
    ranges = [fixed_ports.own_ports(f"gw{number}", 4) for number in range(4)]
    assert sum(map(len, ranges)) == len(set().union(*ranges)) == len(fixed_ports.own_ports("gw0", 1))


def test_none_is_given_twice() -> None:
    given = [fixed_ports.free_port() for _ in range(200)]
    assert len(set(given)) == len(given)
