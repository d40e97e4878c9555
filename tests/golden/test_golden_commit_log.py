"""A commit log of version 1 brings today's coordinator to where it was."""

from __future__ import annotations

import random
from pathlib import Path

from tests.golden.make_commit_log import DIGEST, OLDER, records
from tfquiver.clock import ManualClock
from tfquiver.proto.tfquiver.v1.commit_log_pb2 import CommitRecord
from tfquiver.roles_and_tokens.identity import Identity, Role
from tfquiver.service.coordinator.bandwidth_budgets.budgets import Budgets
from tfquiver.service.coordinator.commit_log.log_file import framed, header, parse
from tfquiver.service.coordinator.derived_datasets.recipes import Recipes
from tfquiver.service.coordinator.named_dataset_lifecycle import lifecycle
from tfquiver.service.coordinator.named_dataset_lifecycle.table import NamedTable
from tfquiver.service.coordinator.nodes_mounts_dispatchers.dispatchers import Dispatchers
from tfquiver.service.coordinator.nodes_mounts_dispatchers.lost_nodes import LostNodes
from tfquiver.service.coordinator.registering_sharing_removing_datasets.ownership import Ownership
from tfquiver.service.coordinator.sessions.session import DatasetView
from tfquiver.service.coordinator.sessions.sessions import Sessions

NOT_OF_SESSIONS = (
    "dataset_registered",
    "dataset_access",
    "dataset_removed",
    "session_claimed",
    "remote_io_allocated",
    "sampling_asked",
    "placement_set",
    "named_dataset_set",
    "named_dataset_gone",
    "derived_begun",
    "derived_rows",
    "derived_made",
    "derived_used",
    "derived_forgotten",
    "dispatcher_known",
    "node_known",
)
LOG = Path(__file__).parent / "commit_log_v1"


def test_every_record_is_read() -> None:
    data = LOG.read_bytes()
    assert parse(data, LOG.name) == (records(), len(data))
    kinds = {record.WhichOneof("record") for record in records()}
    assert kinds == {field.name for field in CommitRecord.DESCRIPTOR.oneofs_by_name["record"].fields}


def test_every_byte_is_written_as_it_was() -> None:
    assert header() + b"".join(map(framed, records())) == LOG.read_bytes()


def test_the_sessions_are_as_they_were() -> None:
    journal: list[CommitRecord] = []

    def nobody_leases(_: bytes) -> DatasetView:
        raise AssertionError("nobody leases here")

    sessions = Sessions(ManualClock(), random.Random(1), journal.append, nobody_leases)
    for record in parse(LOG.read_bytes(), LOG.name)[0]:
        if record.WhichOneof("record") not in NOT_OF_SESSIONS:
            sessions.apply(record)
    sessions.restored()
    open_, ended, settled = (sessions.session(name) for name in ("open", "ended", "settled"))
    assert [session.epoch for session in sessions] == [0, 1, 2, 4, 4, 5, 6]
    assert (open_.shards, open_.seed, open_.session_key, open_.job, open_.digest_id) == (12, 99, "key", "job", DIGEST)
    assert open_.acked.as_array().nonzero()[0].tolist() == [0, 2, 4, 6, 8, 10]
    assert (list(open_.readers), open_.labels, open_.ended) == (["a"], {"worker:1"}, False)
    assert open_.waits_for_readers
    assert (ended.acked_shards, ended.ended, list(ended.readers)) == (11, True, ["trainer"])
    assert (settled.acked_shards, settled.shortfall, settled.labels) == (11, 1, {"w"})
    assert not settled.may_fall_short
    assert (open_.counters.reread, open_.counters.resident_leases, open_.counters.missing_leases) == (1, 2, 3)
    assert sessions.admission.ticket("key", "restored:1", 2, False, DIGEST, 12, "job") == "open"
    assert sessions.admission.ticket("key", "dispatcher:2", 2, False, DIGEST, 12, "job") is None
    assert sessions.admission.own_session("trainer", "key", DIGEST, 12, "job") == "ended"
    left, resumed = sessions.session("left"), sessions.session("resumed")
    assert (left.taken_over, left.ended, left.shortfall, left.acked_shards) == (True, True, 0, 2)
    assert (resumed.acked_shards, resumed.presumed, resumed.delivered().count) == (4, {3}, 3)
    again = sessions.session("reopened")
    assert (again.ended, again.reopened, again.alongside, again.acked_shards) == (True, True, True, 5)
    start = sessions.resumptions.start("later", DIGEST)
    assert start and (start.takes_over, start.position.epoch, start.position.seed) == ("resumed", 4, 99)
    sampled = sessions.session("sampled")
    assert sampled.draws_of(12).shards.tolist() == [1, 1, 5, 3]
    assert (sampled.shards, sampled.draws_of(12).stage_ends, sampled.shards_of([2, 3], 12)) == (4, (3, 4), [5, 3])
    for job, epoch in (("job", 7), ("other", 7)):
        made = sessions.admission.own_session(f"new reader of {job}", "key", DIGEST, 12, job)
        assert sessions.session(made).epoch == epoch


def test_what_jobs_may_read_from_the_store_is_as_it_was() -> None:
    budgets = Budgets(ManualClock())
    for record in parse(LOG.read_bytes(), LOG.name)[0]:
        if record.HasField("remote_io_allocated"):
            budgets.pins.apply(record.remote_io_allocated)
    budgets.restored()
    assert budgets.allocated == {"job": 2.5e8}


def test_since_when_versions_and_draws_are_old_is_as_it_was() -> None:
    table, recipes = NamedTable(lambda record: None), Recipes(lambda record: None)
    for record in parse(LOG.read_bytes(), LOG.name)[0]:
        table.apply(record)
        recipes.apply(record)
    life, recipe = table.get("named"), recipes.get(DIGEST[::-1])
    assert life and recipe
    assert [lifecycle.old_ms(life, old, 3_600_000) for old in life.old_digest_ids] == [3_599_000, 0]
    assert recipe.old_since_ms == {OLDER: 0, DIGEST[::-1]: 1_000}


def test_who_is_missed_is_as_it_was() -> None:
    dispatchers = Dispatchers(ManualClock(), lambda: 1_700_000_100.0, lambda record: None)
    for record in parse(LOG.read_bytes(), LOG.name)[0]:
        if record.HasField("dispatcher_known"):
            dispatchers.apply(record.dispatcher_known)
    dispatchers.restored()
    lost = [(one.address, one.version, one.silent_ms) for one in dispatchers.lost()]
    assert lost == [("d:1", "1.0", 100_000), ("d:2", "1.1", 50_000)]
    first, second = (record.dispatcher_known for record in dispatchers.still()())
    assert first == next(record.dispatcher_known for record in records() if record.HasField("dispatcher_known"))
    assert (second.workers, second.id, second.heard_s) == (["w:3"], "dispatcher-2", 1_700_000_050)
    first, *_ = known = [record.node_known for record in records() if record.HasField("node_known")]
    nodes = LostNodes(ManualClock(), lambda: 1_700_000_160.0)
    for one in known:
        nodes.apply(one)
    nodes.restored()
    assert [(one.node, one.silent_ms) for one in nodes.told()] == [(first.node, 60_000)]
    assert [record.node_known for record in nodes.still()()] == [known[1]]


def test_what_belongs_to_whom_is_as_it_was() -> None:
    ownership = Ownership([].append)
    for record in parse(LOG.read_bytes(), LOG.name)[0]:
        ownership.apply(record)
    blue, red, other = (Identity(Role.JOB, name) for name in ("blue", "red", "other"))
    assert (ownership.owns(blue, DIGEST), ownership.owns(red, DIGEST)) == (True, False)
    assert ownership.may_read(other, DIGEST)
    assert ownership.name_of("key:more") == "blue"
    assert list(ownership.still()()) == [
        record for record in records() if record.WhichOneof("record") in ("dataset_access", "session_claimed")
    ]
