"""Who uses a data set, and how it is said to who would delete it."""

from __future__ import annotations

from tfquiver.proto.tfquiver.v1.commit_log_pb2 import SessionCreated
from tfquiver.service.coordinator.sessions.session import Reader, Session
from tfquiver.service.coordinator.sessions.users import Users

TRAIN, OLD = b"t" * 32, b"o" * 32


def session(job: str, last_used: float, digest_id: bytes = TRAIN, readers: int = 0) -> Session:
    made = Session(
        SessionCreated(session_id=f"{job} {last_used}", digest_id=digest_id, job=job, shards=3), 1, last_used
    )
    made.readers = {f"r{number}": Reader(f"r{number}", "n", "1", "") for number in range(readers)}
    return made


def said(*sessions: Session) -> str:
    return Users.of(sessions).said("train", 100.0)


def test_readers_come_first() -> None:
    assert said(session("run", 90.0, readers=1), session("trial", 10.0)) == "1 reader reads train"
    assert said(session("run", 90.0, readers=1), session("", 90.0, OLD, readers=2)) == "3 readers read train"


def test_a_job_without_readers_is_named_with_when_it_read_last() -> None:
    assert said(session("run", 10.0), session("run", 88.0, OLD)) == (
        "job run (read it 12 s ago) may be between two epochs of train"
    )
    assert said(session("run", 10.0), session("trial", 99.0)) == (
        "jobs run (read it 90 s ago), trial (read it 1 s ago) may be between two epochs of train"
    )
    many = [session(f"job-{number}", 40.0) for number in range(5)]
    assert said(*many).endswith("job-2 (read it 60 s ago) and 2 more may be between two epochs of train")


def test_who_reads_again_is_a_reader_and_others_are_none() -> None:
    its = Users.of([session("run", 10.0), session("run", 90.0, readers=1)])
    assert (its.readers, its.between) == (1, ())
    assert said(session("", 10.0)) == ""
