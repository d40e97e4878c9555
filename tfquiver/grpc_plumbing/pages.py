"""Lists that are larger than a message may be, asked for in pages. Pure but for the call that it is given."""

from __future__ import annotations

from collections.abc import Callable

from tfquiver.proto.tfquiver.v1 import coordinator_pb2

PAGE_BYTES = 1 << 20
DEFAULT_SESSIONS = 1000  # of a request that says no limit

List = Callable[[coordinator_pb2.ListSessionsRequest], coordinator_pb2.ListSessionsReply]


def sessions(call: List, request: coordinator_pb2.ListSessionsRequest) -> list[coordinator_pb2.SessionInfo]:
    """Newest first, `request.limit` at most, each once: what several calls give. One of a coordinator that knows no
    pages is all there is. Raises as `call`."""
    asked, most = coordinator_pb2.ListSessionsRequest(), request.limit or DEFAULT_SESSIONS
    asked.CopyFrom(request)
    asked.page_bytes = PAGE_BYTES
    found: dict[str, coordinator_pb2.SessionInfo] = {}
    for _ in range(most):  # in each page is one at least: a coordinator whose pages never end is not asked for ever
        asked.limit = most - len(found)
        reply = call(asked)
        for info in reply.sessions:
            found.setdefault(info.session_id, info)
        over = not reply.sessions or not reply.next_page or 0 < asked.page <= reply.next_page
        if over or len(found) >= most:
            break
        asked.page = reply.next_page
    return list(found.values())[:most]
