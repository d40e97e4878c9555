"""Data sets that have names: made, warmed, pinned, read, made anew, emptied, deleted; on one machine, on three."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

import tfquiver
from tests.support import node_calls, numbered
from tests.support.cluster import wait_until
from tests.support.named_place import Place, name
from tfquiver.cli.main import main
from tfquiver.cli.status_tables_and_warnings import words
from tfquiver.grpc_plumbing import rpc
from tfquiver.node_daemon_and_notes_in_directories import endpoints
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, coordinator_pb2_grpc
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb

FILES, RECORDS, RECORD_BYTES = 10, 60, 20_000
TOTAL = FILES * RECORDS
SIZE_BYTES = TOTAL * (RECORD_BYTES + 16)
HEADS_BYTES = FILES * 12  # a scan looks at each file's beginning first: it may be compressed

Tfquiver = Callable[..., tuple[int, Any]]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    numbered.write(tmp_path / "data", FILES, RECORDS, RECORD_BYTES)
    return tmp_path / "data"


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Tfquiver:
    """`tfquiver dataset ... --json`: its exit code, and what it said."""

    def run(*arguments: str) -> tuple[int, Any]:
        capsys.readouterr()
        code = main(["dataset", *arguments, "--json"])
        out, err = capsys.readouterr()
        return code, json.loads(out) if out else err

    return run


class TestOnOneMachine:
    @pytest.fixture(autouse=True)
    def where(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        monkeypatch.setenv("TFQUIVER_SERVICE", str(tmp_path / "cache"))
        yield
        endpoints.close_all()
        main(["stop", "--force", str(tmp_path / "cache")])

    def test_content_that_has_two_names_is_listed_and_set_under_both(
        self, data: Path, command: Tfquiver, capsys: pytest.CaptureFixture[str]
    ) -> None:
        files = f"{data}/part-*"
        assert main(["warm", "--name", "used", files]) == 0
        assert command("create", "made", "--source", files, "--wait")[0] == 0
        assert command("create", "again", "--source", files, "--wait")[0] == 0
        listed = command("list")[1]["datasets"]
        assert sorted(one["name"] for one in listed) == ["again", "made", "used"]
        assert len({one["digest_id"] for one in listed}) == 1
        for called in ("made", "again", "used"):
            code, told = command("set-cache", called, "full")
            assert (code, told["name"], told["cache"]) == (0, called, {"mode": "uniform"})
            capsys.readouterr()
            assert main(["explain", called]) == 0
            assert capsys.readouterr().out.startswith("data set used"), "as its content was first called"
        assert command("place", "made")[0] == 0
        assert main(["warm", "--name", "another", files]) == 0
        assert "these files were registered before, as used; --name=another names" in capsys.readouterr().out

    def test_what_has_no_name_of_its_own_is_said_to_and_goes_with_a_name_of_its_content(
        self, data: Path, command: Tfquiver, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        files = f"{data}/part-*"
        assert main(["warm", "--name", "used", files]) == 0
        for action in ("pin", "unpin", "prefetch", "refresh", "evict"):
            code, said = command(action, "used")
            assert code == 1 and "used has no name of its own (made by first use): `tfquiver dataset create" in said
        assert "no data set is called 'usde'" in command("pin", "usde")[1]
        digits = command("list")[1]["datasets"][0]["digest_id"][:8]
        assert f"{digits} has no name of its own (made by first use)" in command("pin", digits)[1]
        assert command("create", "made", "--source", files, "--wait")[0] == 0
        for action in ("pin", "unpin", "prefetch", "refresh"):
            code, told = command(action, digits)
            assert (code, told["name"]) == (0, "made"), "it has a name now"
        assert command("prefetch", "made", "--wait")[0] == 0, "nodes have done what was asked for before"
        for action, said in (
            ("unpin", "made: Ready, was not pinned\n"),
            ("pin --wait", "made: Ready, pinned\n"),
            ("unpin", "made: Ready, not pinned any more\n"),
        ):
            capsys.readouterr()
            assert main(["dataset", *action.split(), "made"]) == 0
            assert capsys.readouterr().out == said
        read = tfquiver.dataset("made", cache_dir=tmp_path / "cache").as_numpy_iterator()
        next(read)
        assert command("create", "second", "--source", files, "--wait")[0] == 0
        assert command("delete", "second") == (0, {"name": "second", "removed": True}), "it is read on as made"
        code, refused = command("delete", "made")
        assert code == 1 and "--force to delete it all the same; with it goes used, of the same content" in refused
        del read
        gc.collect()
        assert command("delete", "made", "--force") == (0, {"name": "made", "removed": True, "with_it": ["used"]})
        assert command("list")[1] == {"datasets": []}

    def test_a_life(self, data: Path, tmp_path: Path, command: Tfquiver, monkeypatch: pytest.MonkeyPatch) -> None:
        """Nothing is set but what a person would: a name, and files."""
        monkeypatch.chdir(data)
        code, told = command("create", "train", "--source", "part-*", "--wait")
        assert (code, told["state"], told["version"]) == (0, "ready", 1)
        assert command("create", "train", "--source", f"{data}/part-*")[0] == 0, "asked for again, nothing changes"
        code, said = command("create", "train", "--source", f"{data}/part-*1*")
        assert code == 1 and "train is taken" in said

        assert command("prefetch", "train", "--check")[0] == 0, "the scan has cached it"
        [listed] = command("list")[1]["datasets"]
        assert listed["resident_bytes"] == SIZE_BYTES, "looked at, though nobody has read it yet"
        [stated] = tfquiver.status()["datasets"]
        assert stated["resident_bytes"] == SIZE_BYTES, "status tells the same"
        for all_of_it in (stated, told := command("show", "train")[1], command("list")[1]["datasets"][0]):
            assert (all_of_it["resident_bytes"], all_of_it["resident_shards"]) == (SIZE_BYTES, told["shards"])
        read = tfquiver.dataset("train", cache_dir=tmp_path / "cache").as_numpy_iterator()
        numbered.assert_each_once(numbered.read(read), TOTAL)
        with pytest.raises(
            tfquiver.errors.NotFoundError, match="no data set is called 'trian'; near it there is train"
        ):
            tfquiver.dataset("trian", cache_dir=tmp_path / "cache")

        assert command("pin", "train")[1]["pinned"]
        code, said = command("evict", "train")
        assert code == 1 and "pinned: unpin it first" in said
        for setting in ("none", "auto", "1MiB"):
            code, said = command("set-cache", "train", setting)
            assert code == 1 and "train is pinned: unpin it first" in said
        assert command("show", "train")[1]["cache"]["mode"] == "uniform"
        assert not command("unpin", "train")[1]["pinned"]
        code, said = command("evict", "train")
        assert code == 1 and "reader reads train: --force" in said
        del read
        gc.collect()
        code, told = command("evict", "train", "--wait", "--force")
        assert (code, told["state"]) == (0, "ready")
        assert command("prefetch", "train", "--check")[0] == 3
        code, told = command("prefetch", "train", "--wait")
        assert (code, told["resident_bytes"]) == (0, SIZE_BYTES)

        [listed] = command("list")[1]["datasets"]
        assert (listed["name"], listed["state"], listed["size_bytes"]) == ("train", "ready", SIZE_BYTES)
        code, said = command("delete", "train")
        assert code == 1 and "may be between two epochs of train: --force" in said
        [job] = {words.job(one) for one in tfquiver.status()["sessions"]}
        assert f"job {job} (read it" in said, "called what tables call it: nobody has given it a name"
        assert command("delete", "train", "--force") == (0, {"name": "train", "removed": True})
        assert command("list")[1] == {"datasets": []}
        assert command("show", "train")[0] == 1

    def test_what_cannot_be_made_says_why(
        self, tmp_path: Path, command: Tfquiver, capsys: pytest.CaptureFixture[str]
    ) -> None:
        code, told = command("create", "nothing", "--source", str(tmp_path / "no-*"), "--wait")
        assert (code, told["state"]) == (1, "failed") and "no match for" in told["reason"]
        code, told = command("create", "nothing-yet", "--source", str(tmp_path / "no-*"))
        assert (code, told["state"]) == (1, "failed") and "no match for" in told["reason"], "also without --wait"
        code, said = command("prefetch", "nothing")
        assert code == 1 and "refresh it first" in said
        assert main(["dataset", "create", "nowhere", "--source", f"{tmp_path}/no-directory/", "--wait"]) == 1
        out, err = capsys.readouterr()
        assert "no match for" in out and err == "", "a bar is for terminals"
        for arguments, why in (
            (("create", "../x", "--source", "/x"), "names no data set"),
            (("create", "x"), "give --source URI"),
            (("create", "x", "--source", "/x", "--credentials", "AKIASECRET"), "never the secret itself"),
            (("create", "x", "--source", "/x", "--nodes", "rack=r9"), "no node matches"),
            (("create", "x", "--source", "/x", "--replicas", "2"), "replicas: 2 are more than the 1 node of the rule"),
            (("create", "x", "--source", "/x", "--rack-local"), "has no label rack"),
            (("prefetch", "x"), "no data set is called 'x'; there are nothing, "),
        ):
            code, said = command(*arguments)
            assert code == 1 and why in said and "AKIASECRET" not in said, arguments
        assert command("delete", "nothing")[0] == 0


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.stop()


def test_three_nodes_read_each_byte_once_and_again_only_what_has_changed(place: Place, data: Path) -> None:
    place.call("Create", pb.DatasetSpec(name="train", sources=[f"{data}/part-*"]))
    first = place.until("train", pb.NamedDataset.STATE_READY)
    assert (first.version, first.resident_bytes) == (1, SIZE_BYTES)
    assert place.total("store_bytes") == SIZE_BYTES + HEADS_BYTES
    held = [node_calls.status(node.ready["control"]).entries for node in place.nodes]
    assert max(held) < sum(held), "it is spread"  # whose are which is drawn with the nodes' ids: one may have none

    place.call("Evict", name("train"))
    assert place.until("train", pb.NamedDataset.STATE_READY).resident_bytes == 0
    assert place.total("entries") == 0
    place.call("Prefetch", name("train"))
    assert place.until("train", pb.NamedDataset.STATE_READY).resident_bytes == SIZE_BYTES
    read_bytes = place.total("store_bytes")
    assert read_bytes == 2 * SIZE_BYTES + HEADS_BYTES

    numbered.write(data.parent / "other", 1, RECORDS, RECORD_BYTES, seed=1)
    [changed] = (data.parent / "other").iterdir()
    changed.replace(sorted(data.iterdir())[3])
    place.call("Refresh", name("train"))
    second = place.until("train", pb.NamedDataset.STATE_READY)
    assert (second.version, second.dataset.digest_id != first.dataset.digest_id) == (2, True)
    assert place.total("store_bytes") - read_bytes <= 0.11 * SIZE_BYTES
    assert second.resident_bytes == SIZE_BYTES, "what has not changed has stayed"
    wait_until(lambda: place.total("entries") == second.dataset.shards, "what was of the old version alone is deleted")

    place.call("Refresh", name("train"))
    assert place.until("train", pb.NamedDataset.STATE_READY).version == 2, "nothing has changed"
    place.call("Delete", name("train"))
    wait_until(lambda: place.total("entries") == 0, "its bytes are gone")
    wait_until(lambda: not place.call("List", pb.ListNamedDatasetsRequest()).datasets, "its name is free")
    with pytest.raises(grpc.RpcError, match="no data set is called 'train'"):
        place.call("Get", pb.GetNamedDatasetRequest(name="train"))
    assert place.call("Delete", name("train")).version == 0, "it is deleted already"


@pytest.mark.parametrize("then", ["Delete", "Evict"])
def test_what_an_evicted_data_set_shares_with_another_goes_with_that(place: Place, data: Path, then: str) -> None:
    for made, pattern in (("whole", "part-*"), ("some", "part-000*")):
        place.call("Create", pb.DatasetSpec(name=made, sources=[f"{data}/{pattern}"]))
        place.until(made, pb.NamedDataset.STATE_READY)
    place.call("Evict", name("whole"))
    told = place.until("whole", pb.NamedDataset.STATE_READY)
    assert told.resident_bytes == SIZE_BYTES // FILES, "is the other one's"
    shards = place.call("Get", name("some")).dataset.shards
    assert f"{shards} of its {told.dataset.shards} shards are other data sets', too: what is kept" in told.reason
    place.call(then, name("some"))
    wait_until(lambda: place.total("entries") == 0, "nobody's bytes are left")


def test_who_reads_the_old_version_finishes_on_it(place: Place, data: Path) -> None:
    place.call("Create", pb.DatasetSpec(name="train", sources=[f"{data}/part-*"]))
    first = place.until("train", pb.NamedDataset.STATE_READY)
    with rpc.channel(place.coordinator.address) as channel:
        stub: Any = coordinator_pb2_grpc.CoordinatorStub(channel)
        opened = coordinator_pb2.OpenReaderRequest(
            session_key="k", digest_id=first.dataset.digest_id, job="run", reader_id="r", node_id="n", incarnation="1"
        )
        session_id = stub.OpenReader(opened, timeout=20).session_id
        sorted(data.iterdir())[0].unlink()
        place.call("Refresh", name("train"))
        wait_until(lambda: place.call("Get", pb.GetNamedDatasetRequest(name="train")).version == 2, "a new version")
        second = place.until("train", pb.NamedDataset.STATE_READY)
        assert second.old_versions == 1
        with pytest.raises(grpc.RpcError, match="1 reader reads train: --force"):
            place.call("Delete", name("train"))
        lease = coordinator_pb2.LeaseRequest(session_id=session_id, reader_id="r", sequence=1, max_shards=1)
        assert stub.Lease(lease, timeout=20).leases
        with pytest.raises(grpc.RpcError, match="it is a version of train"):
            stub.DeleteDataset(coordinator_pb2.DeleteDatasetRequest(digest_id=second.dataset.digest_id), timeout=20)
        stub.CloseReader(coordinator_pb2.CloseReaderRequest(session_id=session_id, reader_id="r"), timeout=20)
        wait_until(
            lambda: not place.call("Get", pb.GetNamedDatasetRequest(name="train")).old_versions, "nobody reads it now"
        )
        with pytest.raises(grpc.RpcError, match="is registered"):
            stub.FindDataset(coordinator_pb2.FindDatasetRequest(digest_id=first.dataset.digest_id), timeout=20)


@contextmanager
def old_and_new(root: Path, data: Path, flag: str) -> Iterator[Place]:
    """Two data sets, of which one was cached when it was scanned; there is no room for both."""
    place = Place(root, nodes=1, quota="20MiB", flags=[flag])
    try:
        numbered.write(root / "more", FILES, RECORDS, RECORD_BYTES, seed=7)
        for made, at in (("old", data), ("new", root / "more")):
            place.call("Create", pb.DatasetSpec(name=made, sources=[f"{at}/part-*"]))
            place.until(made, pb.NamedDataset.STATE_READY)
        yield place
    finally:
        place.stop()


def test_what_does_not_fit_makes_the_oldest_data_set_go_whole(tmp_path: Path, data: Path) -> None:
    with old_and_new(tmp_path, data, "--when_full=dataset_lru") as place:
        place.call("Prefetch", name("new"))
        wait_until(lambda: place.until("new", pb.NamedDataset.STATE_READY).resident_bytes == SIZE_BYTES, "it has room")
        assert place.until("old", pb.NamedDataset.STATE_READY).resident_bytes == 0, "it went whole"
        place.call("Pin", pb.PinDatasetRequest(name="new", pinned=True))
        with pytest.raises(grpc.RpcError, match=r"old needs .* nothing can be evicted: all else is pinned"):
            place.call("Prefetch", name("old"))


def test_what_does_not_fit_is_refused_where_people_are_to_choose(tmp_path: Path, data: Path) -> None:
    with old_and_new(tmp_path, data, "--when_full=manual") as place:
        with pytest.raises(
            grpc.RpcError, match=r"new needs .* are free on all nodes: evict some of old \(12\.0 MB\)"
        ) as caught:
            place.call("Prefetch", name("new"))
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert place.until("old", pb.NamedDataset.STATE_READY).resident_bytes == SIZE_BYTES, "nothing has gone"
        place.call("Evict", name("old"))
        place.until("old", pb.NamedDataset.STATE_READY)
        place.call("Prefetch", name("new"))
        assert place.until("new", pb.NamedDataset.STATE_READY).resident_bytes == SIZE_BYTES


def test_a_source_that_has_changed_is_said_when_a_node_meets_it(place: Place, data: Path) -> None:
    place.call("Create", pb.DatasetSpec(name="train", sources=[f"{data}/part-*"]))
    place.until("train", pb.NamedDataset.STATE_READY)
    place.call("Evict", name("train"))
    place.until("train", pb.NamedDataset.STATE_READY)
    changed = sorted(data.iterdir())[0]
    changed.write_bytes(changed.read_bytes()[::-1])
    place.call("Prefetch", name("train"))
    stale = place.until("train", pb.NamedDataset.STATE_STALE)
    assert changed.name in stale.reason
    changed.unlink()
    place.call("Refresh", name("train"))
    assert place.until("train", pb.NamedDataset.STATE_READY).version == 2
