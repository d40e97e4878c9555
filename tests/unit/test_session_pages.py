"""Sessions asked for in pages: each once, no more than was asked for, whatever the coordinator says."""

from __future__ import annotations

from collections.abc import Sequence

from tfquiver.grpc_plumbing import pages
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb


class Coordinator:
    """Gives what it was made with, reply by reply; the last one again and again."""

    def __init__(self, *replies: tuple[Sequence[str], int]) -> None:
        self._replies = list(replies)
        self.asked: list[pb.ListSessionsRequest] = []

    def __call__(self, request: pb.ListSessionsRequest) -> pb.ListSessionsReply:
        one = pb.ListSessionsRequest()
        one.CopyFrom(request)
        self.asked.append(one)
        ids, next_page = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        return pb.ListSessionsReply(sessions=[pb.SessionInfo(session_id=one) for one in ids], next_page=next_page)


def told(coordinator: Coordinator, limit: int = 0) -> str:
    found = pages.sessions(coordinator, pb.ListSessionsRequest(open_only=True, limit=limit))
    return "".join(info.session_id for info in found)


def test_page_by_page_until_there_is_none() -> None:
    coordinator = Coordinator((list("ab"), 9), (list("cd"), 7), (list("e"), 0))
    assert told(coordinator) == "abcde"
    assert [one.page for one in coordinator.asked] == [0, 9, 7]
    assert all(one.open_only and one.page_bytes == pages.PAGE_BYTES for one in coordinator.asked)


def test_no_more_than_was_asked_for() -> None:
    coordinator = Coordinator((list("ab"), 9), (list("cd"), 7))
    assert told(coordinator, limit=3) == "abc"
    assert [one.limit for one in coordinator.asked] == [3, 1]


def test_a_coordinator_that_knows_no_pages_gives_all_at_once() -> None:
    coordinator = Coordinator((list("abc"), 0))
    assert told(coordinator) == "abc"
    assert len(coordinator.asked) == 1


def test_one_that_was_restarted_in_between_tells_of_some_twice() -> None:
    assert told(Coordinator((list("abc"), 9), (list("cde"), 0))) == "abcde"


def test_one_that_never_ends_is_not_asked_for_ever() -> None:
    for endless in ((list("ab"), 9), ((), 9)):
        coordinator = Coordinator(endless)
        told(coordinator)
        assert len(coordinator.asked) <= 2


def test_nor_is_one_whose_pages_say_the_same_again_and_again() -> None:
    coordinator = Coordinator(*((list("ab"), 2**64 - number) for number in range(1, 100)))
    assert told(coordinator, limit=5) == "ab"
    assert len(coordinator.asked) <= 5
