"""What is said of a move while it goes on, and when it is over though not all found room."""

from __future__ import annotations

from typing import Any

from tfquiver.cli.dataset_commands import placing
from tfquiver.cli.status_tables_and_warnings import nodes_view


def _placed(settled: bool, **report: int) -> dict[str, Any]:
    none = {"to_come_shards": 0, "to_come_bytes": 0, "to_go_shards": 0, "no_room_shards": 0}
    return {"settled": settled, "moves": [{"node_id": "n", "report": none | report}]}


def test_what_dataset_place_says() -> None:
    assert placing.progress(_placed(True)) == ""
    going_on = _placed(False, to_come_shards=2, to_come_bytes=2000, to_go_shards=1, no_room_shards=1)
    assert (
        placing.progress(going_on)
        == "2 shards (2.0 kB) to move, 1 of them finds no room, 1 to be given up where they were"
    )
    over = _placed(True, to_come_shards=1, to_come_bytes=1000, to_go_shards=1, no_room_shards=1)
    assert placing.progress(over) == "no room there for 1 shard (1.0 kB): what has none stays where it is"
    assert placing.progress({"rule": None, "places": None, "moves": []}) == ""


def test_what_status_says() -> None:
    one = {"name": "x", "digest_id": "ab" * 32, "moving_shards": 3, "moving_bytes": 3000, "unmoved_shards": 1}
    assert "3 shards (3.0 kB) are still to come" in "".join(nodes_view.moves([one]))
    assert "; 1 finds no room there" in "".join(nodes_view.moves([one]))
    (told,) = nodes_view.moves([one | {"unmoved_shards": 3}])
    assert "3 shards (3.0 kB) find no room on the nodes that its placement gives them, and stay" in told
    assert list(nodes_view.moves([one | {"moving_shards": 0, "unmoved_shards": 0}])) == []
