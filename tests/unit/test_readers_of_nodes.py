"""Who reads on which node is found without looking at every session, and forgotten with them."""

from __future__ import annotations

from tfquiver.clock import ManualClock
from tfquiver.proto.tfquiver.v1 import commit_log_pb2 as log_pb2
from tfquiver.service.coordinator.sessions.session_book import Record, SessionBook


def opened(session: str, reader: str, node: str) -> Record:
    return Record(reader_opened=log_pb2.ReaderOpened(session_id=session, reader_id=reader, node_id=node))


def found(book: SessionBook, node: str) -> list[tuple[str, str]]:
    return [(session.session_id, reader.reader_id) for session, reader in book.readers_of(node)]


def test_a_reader_is_found_where_it_opened_last_and_nothing_is_left_of_sessions_that_are_forgotten() -> None:
    book = SessionBook(ManualClock(), 10)
    for session in ("s", "t"):
        book.apply(Record(session_created=log_pb2.SessionCreated(session_id=session, session_key=session, shards=4)))
    for record in (opened("s", "r", "a"), opened("s", "q", "a"), opened("t", "r", "a"), opened("s", "r", "b")):
        book.apply(record)
    assert found(book, "a") == [("s", "q"), ("t", "r")]
    assert found(book, "b") == [("s", "r")]
    assert found(book, "c") == []
    book.apply(Record(reader_gone=log_pb2.ReaderGone(session_id="s", reader_id="q")))
    assert found(book, "a") == [("t", "r")]
    for session in ("s", "t"):
        book.apply(Record(session_forgotten=log_pb2.SessionForgotten(session_id=session)))
    assert found(book, "a") == found(book, "b") == []
    assert not book._by_node and not book._nodes_of
