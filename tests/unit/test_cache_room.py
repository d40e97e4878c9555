"""What plans reckon nodes to keep in all."""

from __future__ import annotations

from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.coordinator.plan_rounds_and_moves.cache_room import CacheRoom

QUOTA = 640


def node(
    used_bytes: int = 0, disk_room_bytes: int | None = None, quota_bytes: int = QUOTA, node_id: str = "n"
) -> types_pb2.NodeInfo:
    return types_pb2.NodeInfo(
        node_id=node_id, quota_bytes=quota_bytes, used_bytes=used_bytes, disk_room_bytes=disk_room_bytes
    )


def test_the_quota_or_what_the_disk_has_room_for_where_that_is_less() -> None:
    for kept, told in {
        QUOTA: node(), 250: node(50, 200), 50: node(50, 0), 0: node(0, 0)
    }.items():  # fmt: skip
        assert CacheRoom().look([told]) == kept
    assert CacheRoom().look([node(50, 10_000)]) == QUOTA
    room = CacheRoom()
    assert room.look([node(0, 10_000, quota_bytes=0)]) == room.keepers == 0, "a gateway keeps nothing"
    assert room.look([node(0, 0), node(10, 20, node_id="m")]) == 30 and room.keepers == 2


def test_what_others_write_is_no_news_until_it_is_more_than_a_little() -> None:
    """Each would be another view, which is planned for at once."""
    room = CacheRoom()
    assert room.look([node(100, 200)]) == 300
    for used_bytes, disk_bytes in ((100, 190), (200, 95), (200, 110)):
        assert room.look([node(used_bytes, disk_bytes)]) == 300
    assert room.look([node(200, 89)]) == 289
    assert room.look([node(200, 95)]) == 289, "from there on"
    assert room.look([node(200, 95, quota_bytes=QUOTA + 1)]) == 295, "somebody has given it another quota"
    assert room.look([]) == 0
    assert room.look([node(200, 99)]) == 299, "it was away"


def test_of_many_nodes_there_is_always_one_that_is_no_news() -> None:
    room, rooms = CacheRoom(), [200] * 64

    def look() -> int:
        return room.look([node(100, disk_bytes, node_id=str(at)) for at, disk_bytes in enumerate(rooms)])

    assert look() == 64 * 300
    for at in range(64):
        rooms[at] -= 100
        if sum(rooms) >= 64 * 190:
            assert look() == 64 * 300
    assert look() == 64 * 200, "all of them are"
