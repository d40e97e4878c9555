from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from tfquiver.service.node.connections_between_nodes.connection_slots import to_give_way


@dataclass(frozen=True)
class Slot:
    address: str
    known: bool = True
    idle_since_s: float | None = 0.0


def test_the_host_with_most_loses_its_own_strangers_first_then_the_longest_idle() -> None:
    honest = [Slot("b", False, 0.0), Slot("c", True, 0.0)]
    assert to_give_way([*honest, Slot("a", True, 1.0), Slot("a", False, 9.0)]) == Slot("a", False, 9.0)
    assert to_give_way([*honest, Slot("a", True, 5.0), Slot("a", True, 3.0)]) == Slot("a", True, 3.0)


def test_nobody_at_work_gives_way() -> None:
    assert to_give_way([Slot("a", True, None), Slot("a", True, None), Slot("b", True, 7.0)]) == Slot("b", True, 7.0)
    assert to_give_way([Slot("a", True, None)]) is None
    assert to_give_way([]) is None


@given(st.integers(1, 50), st.integers(0, 3))
def test_a_flood_does_not_push_others_out(flood: int, honest: int) -> None:
    slots = [Slot(f"h{i}", True, -1.0) for i in range(honest)] + [Slot("flood", False, float(i)) for i in range(flood)]
    victim = to_give_way(slots)
    assert victim is not None
    assert flood == 1 or victim.address == "flood"
