"""What belongs to whom, over the wire: two teams and one cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.support import records
from tests.support.cluster import Server
from tests.support.gcs_emulator import gcs_emulator
from tests.support.node_calls import CALL_S, ensure_requests
from tests.support.store_node import build, write_files
from tests.support.trusted import Trusted, code_of
from tfquiver.cli.sim_plan_trace_commands import reading_jobs
from tfquiver.data_sources_found_and_registered.registration import Registrar
from tfquiver.digests.digest import Digest
from tfquiver.digests.file_entry import FileEntry
from tfquiver.grpc_plumbing import rpc
from tfquiver.listing.listing import expand
from tfquiver.listing.listing_terms import ListingTerms
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import coordinator_pb2_grpc, node_pb2, node_pb2_grpc, types_pb2
from tfquiver.scanning.cutting import CutPolicy
from tfquiver.stores.gcs import GcsStore

NOT_FOUND, DENIED = grpc.StatusCode.NOT_FOUND, grpc.StatusCode.PERMISSION_DENIED
POLICY = CutPolicy(1024, 2048, 4096)
UNIFORM = types_pb2.CacheSetting(mode=types_pb2.CACHE_MODE_UNIFORM)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trusted]:
    trusted = Trusted(tmp_path_factory.mktemp("trusted"))
    yield trusted
    trusted.close()


@pytest.fixture
def digest(tmp_path: Path, request: pytest.FixtureRequest) -> Digest:
    """Of files of this test alone."""
    return build(write_files(tmp_path / "data", files=1, records_each=40), POLICY, request.node.name)


def registrar(cluster: Trusted, who: str) -> Registrar:
    control = cluster.node.ready["control"]
    return Registrar(cluster.coordinator.address, control, cluster.tokens[who], 20.0)


def register(cluster: Trusted, who: str, digest: Digest, **fields: Any) -> types_pb2.Dataset:
    parts = iter([pb.RegisterDatasetRequest(part=digest.to_bytes(), **fields)])
    dataset: types_pb2.Dataset = cluster.call(who, "RegisterDataset", parts)
    return dataset


def refusal(cluster: Trusted, who: str, method: str, request: Any) -> grpc.StatusCode:
    with pytest.raises(grpc.RpcError) as raised:
        cluster.call(who, method, request)
    return code_of(raised.value)


def known(cluster: Trusted, who: str) -> set[bytes]:
    return {one.digest_id for one in cluster.call(who, "ListDatasets", pb.ListDatasetsRequest()).datasets}


def claim(cluster: Trusted, who: str, key: str, digest_id: bytes) -> None:
    cluster.call(who, "ClaimSession", pb.ClaimSessionRequest(session_key=key, digest_id=digest_id))


def opened(key: str, digest_id: bytes, job: str = "run", reader: str = "") -> pb.OpenReaderRequest:
    return pb.OpenReaderRequest(
        session_key=key, digest_id=digest_id, job=job, reader_id=reader or f"reader of {key}", node_id="n",
        incarnation="1",
    )  # fmt: skip


def test_hashes_and_digests_are_for_those_alone_to_whom_they_belong(cluster: Trusted, digest: Digest) -> None:
    made = register(cluster, "blue", digest)
    assert list(made.owners) == ["blue"]
    asked = (
        ("GetDigest", pb.GetDigestRequest(digest_id=made.digest_id)),
        ("FindDataset", pb.FindDatasetRequest(digest_id=made.digest_id)),
        ("FindDataset", pb.FindDatasetRequest(name=made.name)),
        ("GetCache", pb.GetCacheRequest(digest_id=made.digest_id)),
        ("SetCache", pb.SetCacheRequest(digest_id=made.digest_id, setting=UNIFORM)),
        ("ShareDataset", pb.ShareDatasetRequest(digest_id=made.digest_id, names=["green"])),
        ("Resume", pb.ResumeRequest(session_key="k", job="run", digest_id=made.digest_id)),
        ("ClaimSession", pb.ClaimSessionRequest(session_key="k", digest_id=made.digest_id)),
    )
    for method, request in asked:
        assert refusal(cluster, "green", method, request) is NOT_FOUND, method
    assert made.digest_id not in known(cluster, "green")
    assert made.digest_id in known(cluster, "blue") & known(cluster, "rack1") & known(cluster, "ann")
    parts = cluster.call("blue", "GetDigest", pb.GetDigestRequest(digest_id=made.digest_id))
    assert b"".join(part.part for part in parts) == digest.to_bytes()


def test_it_can_be_shared_to_read_and_no_more(cluster: Trusted, digest: Digest) -> None:
    made = register(cluster, "blue", digest)
    shared = cluster.call("blue", "ShareDataset", pb.ShareDatasetRequest(digest_id=made.digest_id, names=["green"]))
    assert list(shared.shared_with) == ["green"]
    assert made.digest_id in known(cluster, "green")
    for method, request in (
        ("SetCache", pb.SetCacheRequest(digest_id=made.digest_id, setting=UNIFORM)),
        ("ShareDataset", pb.ShareDatasetRequest(digest_id=made.digest_id, everybody=True)),
        ("DeleteDataset", pb.DeleteDatasetRequest(digest_id=made.digest_id)),
    ):
        assert refusal(cluster, "green", method, request) is DENIED, method
    cluster.call("blue", "SetCache", pb.SetCacheRequest(digest_id=made.digest_id, setting=UNIFORM))
    cluster.call("ann", "SetCache", pb.SetCacheRequest(digest_id=made.digest_id, setting=UNIFORM))
    cluster.call("blue", "ShareDataset", pb.ShareDatasetRequest(digest_id=made.digest_id))
    assert made.digest_id not in known(cluster, "green")


def test_two_teams_who_scan_the_same_files_own_them_both_and_scan_once(cluster: Trusted, tmp_path: Path) -> None:
    files = expand(str(write_files(tmp_path / "data", files=1, records_each=40)))
    with registrar(cluster, "blue") as blue, registrar(cluster, "green") as green:
        first = blue.files(files, ListingTerms(POLICY), "mine", None)
        assert list(first.owners) == ["blue"]
        assert first.digest_id not in known(cluster, "green")
        second = green.files(files, ListingTerms(POLICY), "theirs", None)
    assert (second.digest_id, set(second.owners)) == (first.digest_id, {"blue", "green"})


def test_the_digest_file_is_enough_to_own_it_too(cluster: Trusted, digest: Digest, tmp_path: Path) -> None:
    register(cluster, "blue", digest, name="kept name")
    digest.save(tmp_path / "copy.tfqd")
    with registrar(cluster, "green") as green:
        second = green.digest(tmp_path / "copy.tfqd")
    assert set(second.owners) == {"blue", "green"}
    assert second.name == "kept name"


def test_a_jobs_word_for_a_listing_counts_for_itself_alone(cluster: Trusted, digest: Digest, tmp_path: Path) -> None:
    key = ListingTerms(POLICY).key(digest.files)
    found = pb.FindDatasetRequest(listing_key=key)
    register(cluster, "green", digest, listing_key=key, terms=ListingTerms(POLICY).message())
    assert cluster.call("green", "FindDataset", found).digest_id == digest.digest_id
    assert refusal(cluster, "blue", "FindDataset", found) is NOT_FOUND
    assert refusal(cluster, "rack1", "FindDataset", found) is NOT_FOUND


def and_greens_of_that_name(cluster: Trusted, root: Path, who: str, name: str) -> Digest:
    """What `who` calls that; green calls another one so, and shares it with everybody."""
    mine = build(write_files(root / "mine", files=1, records_each=40), POLICY)
    other = build(write_files(root / "other", files=1, records_each=60), POLICY)
    register(cluster, who, mine, name=name)
    register(cluster, "green", other, name=name)
    cluster.call("green", "ShareDataset", pb.ShareDatasetRequest(digest_id=other.digest_id, everybody=True))
    return mine


def test_nobody_puts_another_data_set_in_the_place_of_ones_own(cluster: Trusted, tmp_path: Path) -> None:
    mine = and_greens_of_that_name(cluster, tmp_path, "blue", "train")
    found = cluster.call("blue", "FindDataset", pb.FindDatasetRequest(name="train"))
    assert found.digest_id == mine.digest_id


def test_the_name_of_anothers_leads_nobody_astray(cluster: Trusted, tmp_path: Path) -> None:
    """Admins see everything, and set and delete by name."""
    mine = and_greens_of_that_name(cluster, tmp_path, "ann", "eval")
    assert cluster.call("ann", "FindDataset", pb.FindDatasetRequest(name="eval")).digest_id == mine.digest_id


def test_a_key_is_no_name_of_anothers_job(cluster: Trusted, digest: Digest) -> None:
    """Epochs of sessions without a job are counted by their key."""
    made = register(cluster, "blue", digest)
    for key in ("green/train", ":x", ""):
        claims = (
            ("ClaimSession", pb.ClaimSessionRequest(session_key=key, digest_id=made.digest_id)),
            ("Resume", pb.ResumeRequest(session_key=key, digest_id=made.digest_id, job="run")),
        )
        for method, request in claims:
            assert refusal(cluster, "blue", method, request) is grpc.StatusCode.INVALID_ARGUMENT, (method, key)


def recorded(cluster: Trusted, who: str) -> int:
    """Jobs that `tfquiver trace record` would see with that token."""
    with rpc.channel(cluster.coordinator.address) as channel:
        stub = coordinator_pb2_grpc.CoordinatorStub(channel)
        return len(reading_jobs.Asking(stub, cluster.tokens[who], "coordinator").ask(60.0).seen)


def test_sessions_are_of_those_who_claimed_their_key(cluster: Trusted, digest: Digest) -> None:
    made = register(cluster, "blue", digest)
    cluster.call("blue", "ShareDataset", pb.ShareDatasetRequest(digest_id=made.digest_id, names=["green"]))
    assert refusal(cluster, "rack1", "OpenReader", opened("nobody's", made.digest_id)) is DENIED
    claim(cluster, "blue", "blue's", made.digest_id)
    claim(cluster, "green", "green's", made.digest_id)
    session_id = cluster.call("rack1", "OpenReader", opened("blue's", made.digest_id)).session_id
    joined = opened("green's", made.digest_id, reader="another")
    joined.session_id = session_id
    assert refusal(cluster, "rack1", "OpenReader", joined) is NOT_FOUND
    sessions = {
        who: [one.session_id for one in cluster.call(who, "ListSessions", pb.ListSessionsRequest()).sessions]
        for who in ("blue", "green", "rack1")
    }
    assert session_id in sessions["blue"] and session_id in sessions["rack1"]
    assert session_id not in sessions["green"]
    assert [recorded(cluster, who) for who in ("blue", "green", "ann")] == [1, 0, 1], "nobody records others' jobs"
    for method, request in (
        ("ClaimSession", pb.ClaimSessionRequest(session_key="blue's", digest_id=made.digest_id)),
        ("Resume", pb.ResumeRequest(session_key="blue's", job="run", digest_id=made.digest_id)),
        ("GetPosition", pb.GetPositionRequest(session_key="blue's")),
    ):
        assert refusal(cluster, "green", method, request) is DENIED, method
    cluster.call("blue", "GetPosition", pb.GetPositionRequest(session_key="blue's"))


def test_nobody_says_how_long_the_steps_of_anothers_job_take(cluster: Trusted, digest: Digest) -> None:
    made = register(cluster, "blue", digest)
    claim(cluster, "blue", "steps of blue", made.digest_id)
    session_id = cluster.call("rack1", "OpenReader", opened("steps of blue", made.digest_id, "steps")).session_id
    node = types_pb2.NodeInfo(node_id="n", control_address="localhost:1")
    read = pb.ReaderReport(session_id=session_id, reader_id="reader of steps of blue")
    cluster.call("rack1", "Heartbeat", pb.HeartbeatRequest(node=node, incarnation="1", readers=[read]))

    def says(who: str, **fields: Any) -> pb.ReportStepsReply:
        request = pb.ReportStepsRequest(process=f"of {who}", accelerators=8, **fields)
        reply: pb.ReportStepsReply = cluster.call(who, "ReportSteps", request)
        return reply

    assert says("blue", session_key="steps of blue", job="steps").known
    assert says("blue", job="steps").known, "by its name alone"
    assert says("ann", session_key="steps of blue", job="steps").known, "an admin"
    for asked in ({"job": "steps"}, {"job": "blue/steps"}, {"job": "steps of blue"}):
        assert not says("green", **asked).known, "those are names of its own"
    for key, job in (("steps of blue", "steps"), ("steps of blue:x", "steps"), ("nobody's", "steps")):
        request = pb.ReportStepsRequest(session_key=key, job=job, process="p")
        assert refusal(cluster, "green", "ReportSteps", request) is DENIED
    request = pb.ReportStepsRequest(session_key="steps of blue", job="steps", process="p")
    assert refusal(cluster, "rack1", "ReportSteps", request) is DENIED
    (info,) = cluster.call("blue", "ListSessions", pb.ListSessionsRequest(session_key="steps of blue")).sessions
    assert info.accelerators == 16, "of two processes"
    cluster.call("rack1", "Leave", pb.LeaveRequest(node_id="n", incarnation="1"))


def test_jobs_of_one_name_in_two_teams_do_not_meet(cluster: Trusted, digest: Digest) -> None:
    """A team that knows how another calls its job could else take its epoch over."""
    made = register(cluster, "blue", digest)
    register(cluster, "green", digest)
    claim(cluster, "blue", "first", made.digest_id)
    reader = cluster.call("rack1", "OpenReader", opened("first", made.digest_id, job="train"))
    lease = pb.LeaseRequest(session_id=reader.session_id, reader_id="reader of first", sequence=1, max_shards=1)
    shard = cluster.call("rack1", "Lease", lease).leases[0].shard
    ack = pb.AckRequest(session_id=reader.session_id, reader_id="reader of first", shards=[shard])
    cluster.call("rack1", "Ack", ack)
    resume = {who: pb.ResumeRequest(session_key=f"{who} again", job="train", digest_id=made.digest_id)
              for who in ("blue", "green")}  # fmt: skip
    assert not cluster.call("green", "Resume", resume["green"]).resumed
    assert cluster.call("rack1", "OpenReader", opened("green again", made.digest_id, job="train")).epoch == 0
    assert cluster.call("blue", "Resume", resume["blue"]).resumed


def test_who_lost_the_right_to_read_opens_no_further_session(cluster: Trusted, digest: Digest) -> None:
    made = register(cluster, "blue", digest)
    cluster.call("blue", "ShareDataset", pb.ShareDatasetRequest(digest_id=made.digest_id, names=["green"]))
    claim(cluster, "green", "shared", made.digest_id)
    cluster.call("rack1", "OpenReader", opened("shared", made.digest_id, reader="1"))
    cluster.call("blue", "ShareDataset", pb.ShareDatasetRequest(digest_id=made.digest_id))
    assert refusal(cluster, "rack1", "OpenReader", opened("shared", made.digest_id, reader="2")) is NOT_FOUND


def test_what_belongs_to_whom_outlives_the_coordinator(tmp_path: Path, digest: Digest) -> None:
    trusted = Trusted(tmp_path)
    try:
        made = register(trusted, "blue", digest)
        trusted.call("blue", "ShareDataset", pb.ShareDatasetRequest(digest_id=made.digest_id, names=["red"]))
        claim(trusted, "blue", "key", made.digest_id)
        for _ in range(2):  # from the log, then from the snapshot of it
            trusted.coordinator.kill()
            coordinator: Server = trusted.coordinator.launch_again().await_ready()
            assert coordinator.running
            assert known(trusted, "green") == set()
            found = trusted.call("blue", "FindDataset", pb.FindDatasetRequest(digest_id=made.digest_id))
            assert (list(found.owners), list(found.shared_with)) == (["blue"], ["red"])
            assert refusal(trusted, "green", "GetPosition", pb.GetPositionRequest(session_key="key")) is DENIED
    finally:
        trusted.close()


def test_what_another_server_serves_is_not_taken_for_the_files_of_this_one(cluster: Trusted) -> None:
    """A job hands over a server of its own as the way to a team's: under the team's listing it would be everybody's."""
    with gcs_emulator() as team, gcs_emulator() as own:
        for emulator, mark in ((team, b"true"), (own, b"lies")):
            store = GcsStore({"endpoint": emulator.address})
            store._client.bucket("bucket").blob("train").upload_from_string(records.stream([mark * 100] * 50))
            (listed,) = store.list("gs://bucket/train")
            store.close()
            generation = team.storage.objects["bucket"]["train"]["generation"]
            emulator.storage.objects["bucket"]["train"]["generation"] = generation
        files = [FileEntry(listed.uri, listed.size_bytes, generation)]
        with rpc.channel(f"unix:{cluster.root / 'a' / 'run' / 'control.sock'}") as channel:
            stub: Any = node_pb2_grpc.NodeStub(channel)
            for client_id, emulator in (("own", own), ("team", team)):
                access = node_pb2.StoreAccess(scheme="gs", options=json.dumps({"endpoint": emulator.address}))
                request = node_pb2.UseStoresRequest(client_id=client_id, stores=[access], ttl_s=60)
                stub.UseStores(request, timeout=CALL_S, metadata=rpc.metadata(cluster.tokens["blue"]))

            def ensured(client_id: str, place: str) -> types_pb2.Dataset:
                requests = iter(ensure_requests(files, POLICY, client_id, place))
                metadata = rpc.metadata(cluster.tokens["blue"])
                *_, last = stub.EnsureDataset(requests, timeout=CALL_S, metadata=metadata)
                dataset: types_pb2.Dataset = last.dataset
                return dataset

            with pytest.raises(grpc.RpcError, match=r"terms\.place") as refused:
                ensured("own", f"gs={team.address}")
            assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
            with pytest.raises(grpc.RpcError, match=r"terms\.place"):
                ensured("own", "")
            with pytest.raises(grpc.RpcError, match="client_id") as unknown:
                ensured("nobody yet", f"gs={team.address}")
            assert unknown.value.code() == grpc.StatusCode.UNAVAILABLE  # it tells a node that was restarted soon
            assert ensured("team", f"gs={team.address}").records == 50


def test_what_belongs_to_others_is_not_explained(cluster: Trusted, digest: Digest, tmp_path: Path) -> None:
    """Whatever of one's own has the same name."""
    register(cluster, "blue", digest, name="same")
    cluster.call("blue", "SetCache", pb.SetCacheRequest(digest_id=digest.digest_id, setting=UNIFORM))
    register(
        cluster, "green", build(write_files(tmp_path / "own", files=1, records_each=50), POLICY, "own"), name="same"
    )
    full = f"same ({digest.digest_id.hex()[:12]})"
    for name in ("same", full):
        assert json.loads(cluster.call("blue", "Explain", pb.ExplainRequest(name=name)).json)["name"] == full
        assert refusal(cluster, "green", "Explain", pb.ExplainRequest(name=name)) is NOT_FOUND
