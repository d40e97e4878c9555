"""Which of the pins that wait for room are asked for at a look."""

from __future__ import annotations

from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.service.coordinator.named_dataset_lifecycle import lifecycle
from tfquiver.service.coordinator.named_dataset_lifecycle.room_for_pins_and_when_full import waiting_pins
from tfquiver.service.coordinator.named_dataset_lifecycle.room_for_pins_and_when_full.waiting_pins import WaitingPins
from tfquiver.service.coordinator.named_dataset_lifecycle.table import NamedTable


def lives(table: NamedTable, count: int) -> list[lifecycle.Life]:
    for number in range(count):
        spec = pb.DatasetSpec(name=f"n{number}", digest_id=bytes([number % 256]) * 32, pin=True)
        table.put(lifecycle.made(spec, f"life {number}", "", False, 1))
    return list(table)


def asked(pins: WaitingPins, every: list[lifecycle.Life], now: float) -> int:
    """At one look, where none gets its room."""
    pins.look_begins()
    count = 0
    for life in every:
        if pins.may_ask(life, now):
            pins.asks(life)
            pins.refused(life, 100, now)
            count += 1
    return count


def test_no_look_asks_for_more_than_so_many_and_each_has_its_turn() -> None:
    """Ten thousand that waited took a millisecond each, every ten seconds."""
    table, most = NamedTable(lambda record: None), waiting_pins.MOST_ASKED
    pins = WaitingPins(table, lambda digest_id: 99)
    every = lives(table, 2 * most + 20)
    assert [asked(pins, every, 0.0) for _ in range(4)] == [most, most, 20, 0]
    assert asked(pins, every, 11.0) == 0 and pins.is_short(), "there is plainly no room"
    assert [asked(pins, every, 300.0 + second) for second in range(4)] == [most, most, 20, 0], "for newer figures"


def test_one_is_asked_for_when_there_may_be_room_and_at_once_when_it_is_another_version() -> None:
    table, left = NamedTable(lambda record: None), 99
    pins = WaitingPins(table, lambda digest_id: left)
    [life] = lives(table, 1)
    assert asked(pins, [life], 0.0) == 1
    left = 100
    assert asked(pins, [life], 9.0) == 0, "it was asked for a moment ago"
    assert asked(pins, [life], 10.0) == 1
    pins.may_have_room(pins.take_short())
    assert not pins.is_short()
    assert asked(pins, [life], 10.0) == 1 and pins.is_short(), "an old version has given its room"
    newer = lifecycle.Life()
    newer.CopyFrom(life)
    newer.digest_id = b"9" * 32
    left = 0
    assert asked(pins, [newer], 10.0) == 1
    pins.over(newer)
    assert not pins.is_short() and not pins._refused
