"""`tfquiver dataset`, as a person types it, against a coordinator and a node."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import node_calls, records
from tests.support.cluster import Cluster, wait_until
from tests.support.command_tool import Tool, as_json
from tests.support.digests import numbered_digest
from tfquiver.cli.main import main
from tfquiver.cli.status_asked_watched_explained import status
from tfquiver.data_sources_found_and_registered.listed import listed
from tfquiver.data_sources_found_and_registered.registration import Registrar
from tfquiver.digests.digest import Digest
from tfquiver.listing.listing_terms import ListingTerms
from tfquiver.scanning.cutting import CutPolicy

QUOTA_BYTES = 2 << 20
# An entry takes a page at least: 800 shards of 100 bytes are larger on disk than the quota.
SHARDS = 800
FULL = {"mode": "uniform"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    base = tmp_path_factory.mktemp("cluster")
    with Cluster(base, workers=0, quota=str(QUOTA_BYTES)) as running:
        wait_until(lambda: len(node_calls.nodes(running.coordinator.address)) == 1, "the node is a member")
        for number, name in enumerate(("train", "twice", "twice")):
            register(running, numbered_digest(SHARDS + number, name), base)
        yield running


def register(cluster: Cluster, digest: Digest, base: Path) -> None:
    digest.save(base / "one.tfqd")
    with Registrar(cluster.coordinator.address, None, "", 20.0) as registrar:
        registrar.digest(base / "one.tfqd")


@pytest.fixture
def tool(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Tool:
    """The exit code and what was written of `tfquiver dataset ARGUMENTS --service ...`; all data sets are at `full`."""

    def call(*arguments: str, service: str = cluster.coordinator.address) -> tuple[int, str, str]:
        code = main(["dataset", *arguments, "--service", service])
        return code, *capsys.readouterr()

    for one in as_json(call, "list")["datasets"]:
        as_json(call, "set-cache", one["digest_id"], "full")
    return call


@pytest.mark.parametrize(
    ("setting", "fixed"),
    [
        ("none", {"mode": "none"}),
        ("full", {"mode": "uniform"}),
        ("uniform", {"mode": "uniform"}),
        ("1MiB", {"mode": "uniform", "allocation_bytes": 1 << 20}),
        ("lru", {"mode": "lru", "allocation_bytes": QUOTA_BYTES}),
        ("lru:1MB", {"mode": "lru", "allocation_bytes": 10**6}),
        ("cooperative", {"mode": "cooperative", "allocation_bytes": QUOTA_BYTES, "rotation": "relevance"}),
        ("cooperative:1MiB", {"mode": "cooperative", "allocation_bytes": 1 << 20, "rotation": "relevance"}),
    ],
)
def test_what_is_set_is_shown(cluster: Cluster, tool: Tool, setting: str, fixed: dict[str, Any]) -> None:
    told = as_json(tool, "set-cache", "train", setting)["cache"]
    assert told | fixed == told
    assert ("chunks" in told) == ("partitions" in told) == (fixed["mode"] == "cooperative")
    shown = as_json(tool, "show", "train")
    assert shown["cache"] == told
    assert ("loading" in shown) == (fixed["mode"] == "cooperative")
    (listed,) = (one for one in as_json(tool, "list")["datasets"] if one["name"] == "train")
    assert listed["cache"] == told
    (stated,) = (one for one in status.collect(str(cluster.cache_dir))["datasets"] if one["name"] == "train")
    assert stated["cache"] == told


def test_sharing_where_no_tokens_are_asked_for_says_that_everybody_reads_it(tool: Tool) -> None:
    for arguments, said in ((["--everybody"], "everybody"), (["--with=a,b"], "a, b"), ([], "nobody")):
        code, out, _ = tool("share", "train", *arguments)
        assert code == 0 and f"It has no owner, and is shared with {said}.\nWhere no tokens are asked for, every" in out
        assert "name" in as_json(tool, "share", "train", *arguments)


def test_tables_fit_a_terminal(cluster: Cluster, tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = tool("set-cache", "train", "cooperative:1MiB", "--rotation=cyclic", "--chunks=100")
    assert code == 0
    assert "cooperative: chunks rotate" in out and "100 of " in out and "cyclic" in out
    for command in (["list"], ["show", "train"]):
        _, out, _ = tool(*command, service=str(cluster.cache_dir))
        assert "train" in out and "1.0 MB" in out and "…" not in out
        assert all(len(line) <= 80 for line in out.splitlines() if "digest id" not in line)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "cooperative:100KB", "--chunks=10"], "100 kB have no room for two chunks of "),
        (["train", "cooperative:100MB"], "100 MB are more than the "),
        (["train", "lru:1TB"], " that are left: the live nodes' quotas are 2.1 MB, of which "),
        (["train", "cooperativ"], "'cooperativ' is not a cache setting: write cooperative[:BYTES] | uniform[:BYTES]"),
        (["train", "lru:"], "'lru:' is not a cache setting"),
        (["train", "none:5"], "'none:5' is not a cache setting"),
        (["train", "0"], "0 bytes keep nothing; write none"),
        (["train", "lru", "--chunks=5"], "--rotation, --chunks and --partitions are for cooperative"),
        (["train", "cooperative", "--chunks=100000000"], ": --chunks: 100000000"),
        (["nothing", "none"], "no data set 'nothing' is registered; there are train, twice"),
        (["twice", "none"], "'twice' names 2 data sets: give one of the digest ids"),
    ],
)
def test_what_cannot_be_is_one_line(tool: Tool, arguments: list[str], message: str) -> None:
    code, out, err = tool("set-cache", *arguments)
    assert (code, out) == (1, "")
    assert message in err and err.startswith("tfquiver: ") and err.count("\n") == 1
    assert all(one["cache"] == FULL for one in as_json(tool, "list")["datasets"])


def test_of_two_with_one_name_the_digest_id_tells(tool: Tool) -> None:
    first, second = (one["digest_id"] for one in as_json(tool, "list")["datasets"] if one["name"] == "twice")
    assert as_json(tool, "set-cache", first[:12], "none")["digest_id"] == first
    assert as_json(tool, "show", second)["cache"] == FULL


def test_what_one_data_set_has_no_other_gets(tool: Tool) -> None:
    first, second = (one["digest_id"] for one in as_json(tool, "list")["datasets"] if one["name"] == "twice")
    as_json(tool, "set-cache", first, "lru:1536KiB")
    code, _, err = tool("set-cache", second, "lru:1MiB")
    assert code == 1 and "of which other data sets have 1.6 MB" in err
    assert as_json(tool, "set-cache", second, "lru")["cache"]["allocation_bytes"] == 512 << 10


def test_of_one_that_nobody_has_set_it_says_so(cluster: Cluster, tool: Tool, tmp_path: Path) -> None:
    register(cluster, numbered_digest(5, "new"), tmp_path)
    assert as_json(tool, "show", "new")["cache"] == {"mode": "unset"}
    assert "auto: as the policy decides" in tool("show", "new")[1]
    [row] = [line.split() for line in tool("list")[1].splitlines() if line.startswith("new ")]
    assert row[-2:] == ["0%", "auto"], "though nobody has read it yet"


def test_a_service_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dataset", "list", "--service", "nothing"]) == 1
    assert "neither host:port nor a directory" in capsys.readouterr().err


def test_a_digest_that_is_registered_is_found_by_its_files(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "a.tfrecord").write_bytes(records.stream(b"record %d" % at for at in range(100)))
    pattern, service = str(tmp_path / "*.tfrecord"), cluster.coordinator.address
    before = node_calls.status(cluster.node.ready["control"]).store_bytes
    assert main(["digest", "build", pattern, "-o", str(tmp_path / "d.tfqd"), "--name=mine", "--service", service]) == 0
    files, _ = listed(pattern)
    with Registrar(service, None, "", 20.0) as registrar:
        found = registrar.files(files, ListingTerms(), "other", None)
        assert (found.name, found.records) == ("mine", 100)
        assert registrar.files(files, ListingTerms(CutPolicy(1, 1, 1)), "other", None).shards == 100
    assert node_calls.status(cluster.node.ready["control"]).store_bytes - before < 2 * files[0].size_bytes
