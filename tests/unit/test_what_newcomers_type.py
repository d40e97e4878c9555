"""What a tired person types once: a directory of data for a cache, a flag that another command has, a word that is
nearly one. Each answer says what to do."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.as_user import as_user
from tests.unit.test_which_cluster import holding
from tfquiver import durable, errors, named_files
from tfquiver.cli.doctor import command as doctor
from tfquiver.cli.main import main
from tfquiver.cluster_address import running, running_nodes
from tfquiver.grpc_plumbing import addresses
from tfquiver.listing.nothing_found import what_is_there
from tfquiver.local_cluster import stopping
from tfquiver.node_daemon_and_notes_in_directories import daemon, server_file, up_file, whose_files


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """`data` has files of a data set, `cache` is a node's that does not run, `file` is one, `empty` a directory."""
    monkeypatch.delenv("TFQUIVER_SERVICE", raising=False)
    monkeypatch.setattr(running_nodes, "directories", list)
    monkeypatch.setattr(running_nodes, "work_dirs", list)
    monkeypatch.chdir(tmp_path)
    for name in ("data", "cache", "empty"):
        (tmp_path / name).mkdir()
    for number in range(3):
        (tmp_path / "data" / f"train-{number}").write_bytes(b"")
    (tmp_path / "cache" / "node.lock").write_bytes(b"")
    (tmp_path / "file").write_bytes(b"")
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What it prints; that it fails is expected."""
    try:
        assert main(list(arguments)) != 0
    except SystemExit as stopped:
        assert stopped.code
    told = capsys.readouterr()
    return told.out + told.err


NO_CACHE = "no cache directory, and never was one: in it are 'train-"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["clear", "data"], f"clear: nothing was deleted: data is {NO_CACHE}"),
        (["stop", "data"], f"stop: nothing runs in data: it is {NO_CACHE}"),
        (["logs", "data"], f"logs: data is {NO_CACHE}"),
        (["status", "data"], f"no node runs in data; it is {NO_CACHE}"),
    ],
)
def test_a_directory_of_data_is_no_cache(command: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert words in said(capsys, *command)


def test_what_was_a_cache_or_may_become_one_is_not_called_none(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert whose_files.others(here / "data").endswith(", ...")
    (here / "empty" / "lost+found").mkdir()  # as on a new disk
    for name in ("cache", "empty", "file", "not there"):
        assert whose_files.others(here / name) == ""
    for name in ("cache", "empty"):
        assert main(["stop", name]) == 0
        assert capsys.readouterr().out == f"{name}: nothing runs there\n"


def test_a_file_in_the_place_of_a_directory_is_named_with_what_to_do(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    what = "a file is there, and no directory: name another directory, or move that file away"
    assert f"up: {here / 'file'}: {what}" in said(capsys, "up", "file")
    assert f"up: {here / 'file'}/x: a file is there at {here / 'file'}, and" in said(capsys, "up", "file/x")
    with pytest.raises(errors.InvalidArgumentError) as raised:
        daemon.find_or_start(here / "file")
    assert str(raised.value) == f"cache_dir {here / 'file'}: {what}"
    assert "'file' is a file: name a cache directory, or host:port" in said(capsys, "status", "file")
    assert durable.why_not_made(here / "new", PermissionError(13, "Permission denied")).endswith(
        "Permission denied: name a directory that this user may write in"
    )


def test_a_link_that_leads_nowhere_is_named_with_what_it_leads_to(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """To a disk that is not mounted, say; and a link to itself was a traceback."""
    (here / "away").symlink_to(here / "disk" / "cache")
    (here / "circle").symlink_to("circle")
    what = "which is not there, is in its place: make that, or name another directory"
    assert f"up: {here / 'away'}: a link to {here / 'disk' / 'cache'}, {what}" in said(capsys, "up", "away")
    assert f"which is not there, is at {here / 'away'}: make that" in said(capsys, "up", "away/x")
    assert f"{here / 'circle'}: a link to circle, {what}" in said(capsys, "warm", "file", "--service=./circle")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["warm", "data/train-*", "--cache_dir=cache"],
            "; here a cache directory, as a coordinator, is given as",
        ),
        (["warm", "data/train-*", "--cache-dir", "cache"], "is given as --service WHERE"),
        (["warm", "data/train-*", "cache"], "cache names a cluster, and no files: give it as --service=cache"),
        (["warm", "data/train-*", "h:1"], "h:1 names a cluster, and no files: give it as --service=h:1"),
        (["warm", "data/train-*"], "as --service=WHERE or in TFQUIVER_SERVICE"),
        (["explain", "job"], "as --service=WHERE or in TFQUIVER_SERVICE"),
        (["warm", "x", "--format=byte"], "argument --format: 'byte' is none of tfrecord, bytes; did you mean bytes?"),
        (["mount", "x", "y", "--format=tar"], "argument --format: 'tar' is none of auto, tfrecord, bytes\n"),
        (
            ["digest", "build", "x", "-o", "o", "--format=bytes", "--min_shard=1"],
            "tfquiver: --min_shard=1: for --format=bytes it is ",
        ),
        (["up", "gs://bucket/cache"], "'gs://bucket/cache' is neither host:port nor a directory of this machine"),
        (["warm", "data/train-0", "--service=gs://b/c"], "'gs://b/c' is neither host:port nor a directory of this"),
        (["up", "d", "--quota=50"], "argument --quota: 50 is 50 bytes: write 50GB or 50MB, or 0 to keep nothing"),
        (["up", "d", "--quota=0.5"], "argument --quota: 0.5 is 0 bytes: write 0.5GB or 0.5MB, or 0 to keep nothing"),
        (["up", "d", "--quota=1kB"], "argument --quota: in 1kB no shard has room: the least is 64KiB, or 0 to keep "),
        (
            ["dataset", "set-cache", "x", "5", "--service=h:1"],
            "'5': 5 is 5 bytes: write 5GB or 5MB, or none to keep nothing",
        ),
        (
            ["dataset", "set-cache", "x", "lru:63KiB", "--service=h:1"],
            "'lru:63KiB': in 63KiB no shard has room: the least is 64KiB, or none to keep nothing",
        ),
        (["demo", "--data=file"], "--data=file: a file is there, and no directory"),
        (["digest", "build", "x", "-o", "o", "--max_shard=big"], "tfquiver: --max_shard: not a size: 'big'"),
        (
            ["digest", "build", "x", "-o", "o", "--max_shard=8"],
            "--target_shard=2097152, --max_shard=8 (bytes, where",
        ),
        (["digest", "show", "data"], "tfquiver: data: is a directory: name a digest file (.tfqd)"),
        (["pack", "data", "-o", "o", "--part_bytes=64mib"], "tfquiver: --part_bytes: not a size: '64mib'; write 64MiB"),
        (["pack", "data", "-o", "o", "--workers=two"], "argument --workers: 'two' is not a number from 1 to 256"),
        (["pack", "data", "-o", "o", "--part_bytes=0"], "tfquiver: --part_bytes=0: no file would have anything in it"),
        (["pack", "data", "-o", "gs:/b/x"], "tfquiver: -o gs:/b/x: write gs://b/x; a folder of that name is ./gs:/b/x"),
        (["pack", "gs://b/x", "-o", "o"], "gs://b/x: what is packed is a folder or file of this machine: copy it here"),
        (["pack", "file:///x/y", "-o", "o"], "tfquiver: file:///x/y: give the path alone, /x/y"),
        (["sim", "data"], "tfquiver: data: is a directory: name a JSON file; `tfquiver sim --help` says what"),
        (["sim", "file"], "tfquiver: file: not JSON (Expecting value: line 1 column 1 (char 0)): name a JSON file; "),
        (["plan", "file"], "tfquiver: file: not JSON (Expecting value: line 1 column 1 (char 0)): name a JSON file; "),
        (["token", "new", "job", "x", "--out=data"], "--out=data: is a directory: give the name of a new file, as in "),
        (["token", "new", "job", "x", "--out=file"], "--out=file: is there already, and may be in use: give the name"),
        (["token", "new", "job", "x", "--out=no/x"], "--out=no/x: there is no directory no: make it, or name another"),
        (["mount", "data", "empty", "--cache_dir=cache", "--memory=lots"], "tfquiver: --memory: not a size: 'lots'; "),
        (["mount", "data", "empty", "--cache_dir=cache", "--read_ahead=3XB"], "--read_ahead: not a size: '3XB'; "),
        (["digest", "show", "file", "--shard=one"], "argument --shard: 'one' is not the number of a shard: they begin"),
        (["digest", "show", "file", "--shard=-1"], "argument --shard: '-1' is not the number of a shard: they begin"),
        (["demo", "--data="], "tfquiver: --data '': name a directory; the one that this is started in is ."),
        (["demo", "--data=~nobody-of-this-name/x"], "--data=~nobody-of-this-name/x: Could not determine home"),
        (["demo", "--png=data"], "tfquiver: --png=data: is a directory: give the name of a file"),
        (["demo", "--json="], "tfquiver: --json=.: give the name of a file"),
        (["demo", "--png=no/such/x.png"], "tfquiver: --png=no/such/x.png: there is no directory no/such: make it"),
        (["demo", "--json=no/x"], "tfquiver: --json=no/x: there is no directory no: make it, or name another"),
        (["limit", "job", "50"], "tfquiver: RATE: 50 is 50 bytes a second: write 50MB or 50kB"),
        (["limit", "job", "50mb/s"], "tfquiver: RATE: not a size: '50mb'; write 50MB, bytes a second; or none"),
        (["status", "http://head:5040/"], "nor a directory of this machine: write head:5040"),
        (["status", "5040"], "nor a directory that is there: a port stands behind its host, as in localhost:5040"),
        (["status", "localhost"], "nor a directory that is there: its port is missing, as in localhost:5040"),
        (["status", "head:99999"], "nor a directory that is there: there is no port 99999, they are 1 to 65535"),
        (["health", "localhost"], "nor a directory that is there: its port is missing, as in localhost:5040"),
        (["health", "file"], "'file' is a file: name a cache directory, or host:port"),
    ],
)
def test_what_was_meant_is_said(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert words in said(capsys, *arguments)


def test_who_names_a_directory_of_files_for_a_cache_is_warned(here: Path) -> None:
    """A pattern `data/*` then meant the cache's files, too, and the data set was called damaged."""
    assert whose_files.beside(here / "data").startswith("files are in it ('train-0', for one): what is cached is kept")
    (here / "empty" / "lost+found").mkdir()
    (here / "empty" / "log").mkdir()
    for name in ("cache", "empty", "file", "not there"):
        assert whose_files.beside(here / name) == ""


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("dat/train-*", ": there is no directory 'dat' in {here}"),
        ("{here}/no/such/train-*", ": there is no directory 'no' in {here}"),
        ("data/trian-*", ": in {here}/data there are 'train-0', 'train-1', 'train-2'"),
        ("data/train-.*", ": it is a glob, as a shell has them, in which * alone stands for any characters"),
        ("empty/train-*", ": {here}/empty is empty"),
        ("d*/train-9", ""),
        ("gs://bucket/train-*", ""),
        ("data/train-9/", ""),
    ],
)
def test_what_may_have_been_mistyped_in_a_pattern(here: Path, pattern: str, words: str) -> None:
    found = what_is_there(pattern.format(here=here))
    assert found.startswith(words.format(here=here)) and bool(found) == bool(words or "d*" in pattern)


def test_it_is_said_which_up_has_a_port(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work_dir = here / "cache" / "coordinator"
    work_dir.mkdir()
    server_file.write(work_dir, "coordinator", "localhost:5040")
    monkeypatch.setattr(running_nodes, "work_dirs", lambda: [work_dir])
    with ExitStack() as held:
        assert running.listening_on(5040) == ""
        held.enter_context(holding(work_dir / "lock"))
        assert running.listening_on(5040) == f"the coordinator (pid {os.getpid()}) in {work_dir}"
        held.enter_context(holding(here / "cache" / up_file.LOCK_FILE))
        assert running.listening_on(5040) == f"`tfquiver up` (pid {os.getpid()}) in {here / 'cache'}"
        assert running.listening_on(504) == ""


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("https://storage.googleapis.com/bucket/a/train-*", ": files of that bucket are named gs://bucket/a/train-*"),
        ("https://bucket.storage.googleapis.com/f?x=1", ": files of that bucket are named gs://bucket/f"),
        (
            "https://console.cloud.google.com/storage/browser/bucket/a;tab=x",
            ": files of that bucket are named gs://bucket/",
        ),
        ("https://s3.eu-west-3.amazonaws.com/bucket/f", ": files of that bucket are named s3://bucket/f"),
        ("http://bucket.s3.amazonaws.com/a/f", ": files of that bucket are named s3://bucket/a/f"),
        ("https://me.blob.core.windows.net/data/f", ": files of that bucket are named az://data/f"),
        ("https://host/train-*", ": a web server is asked for its index page, and none is there that links to such"),
        (
            "https://s3.example.org/bucket/f",
            ": that web server has no such file; files in buckets are named gs://BUCKET",
        ),
        ("s3:/bucket/train-*", ": write s3://bucket/train-*"),
        ("gs:bucket/train-*", ": write gs://bucket/train-*"),
        ("s3://bucket/train-*", ""),
    ],
)
def test_web_addresses_and_half_written_schemes_are_told_what_to_write(pattern: str, words: str) -> None:
    assert what_is_there(pattern).startswith(words) and bool(what_is_there(pattern)) == bool(words)


def test_a_file_uri_is_looked_at_as_its_path_is(here: Path) -> None:
    assert what_is_there(f"file://{here}/data/trian-*").startswith(f": in {here}/data there are 'train-")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may be another user")
def test_what_another_user_may_not_is_said_with_whose_it_is(here: Path) -> None:
    (here / "cache").chmod(0o700)
    for path in (here, *list(here.parents)[:3]):
        path.chmod(path.stat().st_mode | 0o011)

    def told() -> list[str]:
        found = []
        for call in (
            lambda: stopping.holder(here / "cache" / "node.lock"),
            lambda: named_files.check_output(f"--output={(path := here / 'cache2' / 'x.tfqd')}", path),
        ):
            try:
                call()
            except errors.TfquiverError as error:
                found.append(str(error))
        return found

    (here / "cache2").mkdir(mode=0o755)
    denied = as_user(65534, 65534, [], told)
    [doctors] = as_user(65534, 65534, [], lambda: list(doctor._of_servers(str(here / "cache"), here / "cache", "")))
    assert doctors.do == "run doctor as that user, or name a coordinator's host:port"
    assert denied == [
        f"{here / 'cache' / 'node.lock'}: Permission denied: the directory is another user's",
        f"--output={here / 'cache2' / 'x.tfqd'}: Permission denied: nobody may not write in {here / 'cache2'}: "
        "name a file elsewhere",
    ]


def test_a_port_that_is_roots_is_said_to_be() -> None:
    refused = PermissionError(13, "Permission denied")
    assert addresses.below_1024(refused, "localhost:80") == "; ports below 1024 are root's: take another"
    assert addresses.below_1024(refused, "h:8080") == addresses.below_1024(OSError(98, "in use"), "h:80") == ""
