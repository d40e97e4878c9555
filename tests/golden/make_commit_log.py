"""Writes commit_log_v1, a log with every kind of record, beside this file.

Run it (python -m tests.golden.make_commit_log) when there is a new kind of record, appended to the others, or when
the format gets a new version; then keep the old file too.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

from tfquiver.proto.tfquiver.v1 import commit_log_pb2 as log_pb2
from tfquiver.proto.tfquiver.v1 import derived_datasets_pb2, named_datasets_pb2, types_pb2
from tfquiver.proto.tfquiver.v1.commit_log_pb2 import CommitRecord
from tfquiver.service.coordinator.commit_log.log_file import framed, header

HERE = Path(__file__).parent
DIGEST = bytes(range(32))
OLDER = bytes(32)


def records() -> list[CommitRecord]:
    """An open session of which half is acked, one that has ended, one that was settled, one that was forgotten."""
    dataset = types_pb2.Dataset(
        digest_id=DIGEST, content_root=DIGEST[::-1], name="small", shards=12, records=34, size_bytes=5678
    )
    setting = types_pb2.CacheSetting(
        mode=types_pb2.CACHE_MODE_COOPERATIVE, allocation_bytes=1234, rotation="cyclic", chunks=10, partitions=64
    )
    part = derived_datasets_pb2.DerivedShard(hash=DIGEST, length_bytes=321, records=3)
    row = derived_datasets_pb2.DerivedRow(row=7, parts=[part])
    node = types_pb2.NodeInfo(
        node_id="node-1", control_address="a:1", data_address="a:2", quota_bytes=99, labels={"rack": "r1"}
    )
    old = log_pb2.OldSince(digest_id=DIGEST[::-1], up_ms=1_000)
    counters = log_pb2.Counters(reread=1, resident_leases=2, missing_leases=3)

    def created(session_id: str, epoch: int, **fields: object) -> CommitRecord:
        return CommitRecord(
            session_created=log_pb2.SessionCreated(
                session_id=session_id, session_key="key", digest_id=DIGEST, job="job", epoch=epoch, shards=12, seed=99,
                **fields,  # type: ignore[arg-type]
            )
        )  # fmt: skip

    def opened(session_id: str, reader_id: str) -> CommitRecord:
        return CommitRecord(
            reader_opened=log_pb2.ReaderOpened(
                session_id=session_id, reader_id=reader_id, node_id="node", incarnation="1", label="worker:1"
            )
        )

    def ticket(session_id: str, provider_id: str, end: bool, adopted: bool = False) -> CommitRecord:
        given = log_pb2.TicketGiven(session_id=session_id, provider_id=provider_id, repetition=2)
        given.end, given.adopted = end, adopted
        return CommitRecord(ticket_given=given)

    def acked(session_id: str, shards: range) -> CommitRecord:
        return CommitRecord(shards_acked=log_pb2.ShardsAcked(session_id=session_id, shards=shards, counters=counters))

    position = types_pb2.Position(epoch=4, done_bitmap=zlib.compress(b"\x0f\x00"), seed=99)
    asked = log_pb2.ResumeAsked(
        session_key="later", digest_id=DIGEST, job="job", position=position, session_id="resumed"
    )
    steps = struct.pack("<4i", 1, 0, 4, -2)  # of shards 1, 1, 5 and 3
    drawn = types_pb2.DrawnShards(
        scheme="weighted", draws=4, shards_zlib=zlib.compress(steps), stage_ends=[3, 4], records=9
    )
    sampled = created("sampled", 6, drawn=drawn)
    sampled.session_created.shards = drawn.draws
    return [
        CommitRecord(dataset_registered=log_pb2.DatasetRegistered(dataset=dataset, listing_key=DIGEST)),
        created("open", 0),
        ticket("open", "dispatcher:1", end=False),
        ticket("open", "restored:1", end=False, adopted=True),
        opened("open", "a"),
        opened("open", "b"),
        acked("open", range(0, 12, 2)),
        CommitRecord(reader_gone=log_pb2.ReaderGone(session_id="open", reader_id="b")),
        created("ended", 1, own_reader_id="trainer", done_bitmap=zlib.compress(b"\xff\x00"), counters=counters),
        opened("ended", "trainer"),
        acked("ended", range(8, 11)),
        CommitRecord(session_ended=log_pb2.SessionEnded(session_id="ended")),
        created("settled", 2),
        ticket("settled", "dispatcher:2", end=True),
        CommitRecord(session_ended=log_pb2.SessionEnded(session_id="settled", settled=True, acked=11, labels=["w"])),
        created("forgotten", 3),
        CommitRecord(session_forgotten=log_pb2.SessionForgotten(session_id="forgotten")),
        created("left", 4),
        CommitRecord(shards_acked=log_pb2.ShardsAcked(session_id="left", shards=[0, 1], presumed=True)),
        CommitRecord(resume_asked=asked),
        created("resumed", 4, done_bitmap=zlib.compress(b"\x0f\x00"), takes_over="left", resumed=True, presumed=[3]),
        CommitRecord(epochs_counted=log_pb2.EpochsCounted(job="other", digest_id=DIGEST, sessions=7)),
        CommitRecord(cache_set=log_pb2.CacheSet(digest_id=DIGEST, setting=setting)),
        CommitRecord(
            dataset_access=log_pb2.DatasetAccess(
                digest_id=DIGEST, owners=["blue", "green"], shared_with=["red"], everybody=True
            )
        ),
        created("reopened", 5, alongside=True),
        acked("reopened", range(5)),
        CommitRecord(session_ended=log_pb2.SessionEnded(session_id="reopened")),
        CommitRecord(session_reopened=log_pb2.SessionReopened(session_id="reopened")),
        CommitRecord(dataset_removed=log_pb2.DatasetRemoved(digest_id=DIGEST[::-1])),
        CommitRecord(session_claimed=log_pb2.SessionClaimed(session_key="key", name="blue")),
        CommitRecord(
            dataset_registered=log_pb2.DatasetRegistered(dataset=dataset, listing_key=DIGEST[::-1], listed_for="blue")
        ),
        CommitRecord(remote_io_allocated=log_pb2.RemoteIoAllocated(job="job", bytes_per_s=2.5e8)),
        CommitRecord(plan_decided=log_pb2.PlanDecided(json='{"at_s": 1.0, "kind": "dataset", "name": "train"}')),
        CommitRecord(policy_chosen=log_pb2.PolicyChosen(policy="quiver", flag="benefit")),
        CommitRecord(
            sampling_asked=log_pb2.SamplingAsked(
                session_key="key~weighted", digest_id=DIGEST, scheme="weighted", arguments='{"shards":[1.0]}'
            )
        ),
        sampled,
        CommitRecord(placement_set=log_pb2.PlacementSet(digest_id=DIGEST)),
        CommitRecord(named_dataset_set=log_pb2.NamedDatasetSet(life="1", owner="blue")),
        CommitRecord(named_dataset_gone=log_pb2.NamedDatasetGone(name="train")),
        CommitRecord(
            derived_begun=log_pb2.DerivedBegun(
                recipe=DIGEST, digest_id=DIGEST, name="small", draw=1, old_digest_ids=[DIGEST[::-1]], domain="blue"
            )
        ),
        CommitRecord(derived_rows=log_pb2.DerivedRows(recipe=DIGEST, draw=1, rows=[row])),
        CommitRecord(derived_made=log_pb2.DerivedMade(recipe=DIGEST, draw=1, digest_id=DIGEST[::-1])),
        CommitRecord(derived_used=log_pb2.DerivedUsed(recipe=DIGEST, draw=1, uses=2)),
        CommitRecord(derived_forgotten=log_pb2.DerivedForgotten(recipe=DIGEST)),
        CommitRecord(
            dispatcher_known=log_pb2.DispatcherKnown(
                address="d:1", version="1.0", workers=["w:1", "w:2"], heard_s=1_700_000_000
            )
        ),
        CommitRecord(dispatcher_known=log_pb2.DispatcherKnown(address="d:2", workers=["w:3"], id="dispatcher-2")),
        CommitRecord(
            dispatcher_known=log_pb2.DispatcherKnown(
                address="d:2", version="1.1", heard_s=1_700_000_050, id="dispatcher-2", workers_as_before=True
            )
        ),
        CommitRecord(node_known=log_pb2.NodeKnown(node=node)),
        CommitRecord(node_known=log_pb2.NodeKnown(node=node, heard_s=1_700_000_100)),
        CommitRecord(node_known=log_pb2.NodeKnown(node=types_pb2.NodeInfo(node_id="node-2"), gone=True)),
        CommitRecord(time_passed=log_pb2.TimePassed(up_ms=3_600_000)),
        CommitRecord(
            named_dataset_set=log_pb2.NamedDatasetSet(
                spec=named_datasets_pb2.DatasetSpec(name="named"), life="2", digest_id=DIGEST,
                old_digest_ids=[DIGEST[::-1], OLDER], old_since=[old],
            )
        ),
        CommitRecord(
            derived_begun=log_pb2.DerivedBegun(
                recipe=DIGEST[::-1], digest_id=DIGEST, name="small", draw=2, old_digest_ids=[DIGEST[::-1], OLDER],
                old_since=[old],
            )
        ),
        CommitRecord(
            derived_made=log_pb2.DerivedMade(
                recipe=DIGEST[::-1], draw=2, digest_id=DIGEST, old_digest_ids=[OLDER, DIGEST[::-1]], old_since=[old]
            )
        ),
        CommitRecord(policy_chosen=log_pb2.PolicyChosen(policy="quiver", flag="benefit", coming="theirs")),
    ]  # fmt: skip


if __name__ == "__main__":
    (HERE / "commit_log_v1").write_bytes(header() + b"".join(map(framed, records())))
