"""Files that a command is to read or to write, and cannot: one line with the flag, the file and what to do, before
anything long begins; nothing is left of the attempt. As root no permission bit stands in the way: a directory in a
file's place, a file in a directory's, /proc, a limit on files' sizes; and another user, where root can be one."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import resource
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.as_user import as_user
from tfquiver import errors, named_files
from tfquiver.charts_as_png import png
from tfquiver.cli import as_typed, main
from tfquiver.cli.sim_plan_trace_commands import trace
from tfquiver.cluster_address import running_nodes
from tfquiver.service.sim.workloads_and_recordings.recording import Recorder

# What is typed, and how the file is called in what is said; {} is the file.
WRITTEN = [
    (["token", "new", "job", "x", "--out={}"], "--out={}: "),
    (["digest", "build", "data", "-o", "{}"], "--output={}: "),
    (["digest", "weights", "d.tfqd", "w.npy", "-o", "{}"], "--output={}: "),
    (["trace", "record", "{}"], "{}: "),
    (["demo", "--png={}"], "--png={}: "),
    (["demo", "--png=/dev/null", "--json={}"], "--json={}: "),
    *((([command, "jobs.json", "--plot={}"], "--plot={}: ") for command in ("sim", "plan")) if png.can_draw() else ()),
]
READ = [
    (["sim", "{}"], "{}: "),
    (["sim", "--trace={}"], "--trace={}: "),
    (["plan", "--trace={}"], "--trace={}: "),
    (["digest", "show", "{}"], "{}: "),
    (["digest", "verify", "{}"], "{}: "),
    (["digest", "weights", "{}", "w.npy", "-o", "new"], "{}: "),
    (["dataset", "create", "x", "--digest={}"], "--digest={}: "),
    (["status", "h:1", "--auth_token_file={}"], "--auth_token_file={}: "),
    (["dashboard", "h:1", "--key_file={}"], "--key_file={}: "),
    (["pack", "{}", "-o", "new"], "{}: "),
]


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.delenv("TFQUIVER_SERVICE", raising=False)
    monkeypatch.delenv("TFQUIVER_AUTH_TOKEN_FILE", raising=False)
    monkeypatch.setattr(running_nodes, "directories", list)
    monkeypatch.setattr(running_nodes, "work_dirs", list)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dir").mkdir()
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "recorded.json").write_bytes(b"")
    return tmp_path


def called(arguments: list[str]) -> tuple[int, str]:
    """The exit code, and what it prints."""
    with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.redirect_stderr(said):
        try:
            code = main.main(arguments)
        except SystemExit as stopped:
            code = int(stopped.code or 0)
    return code, said.getvalue()


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def named(words: list[str], called_so: str, file: str) -> tuple[list[str], str]:
    return [word.format(file) for word in words], f"tfquiver: {called_so.format(file)}"


@pytest.mark.parametrize(
    ("words", "called_so"), WRITTEN, ids=lambda one: one if isinstance(one, str) else " ".join(one)
)
@pytest.mark.parametrize(
    ("file", "why"),
    [
        ("dir", "is a directory: give the name of a "),
        ("file/x", "file is a file, and no directory: name another directory"),
        ("no/x", "there is no directory no: make it, or name another"),
        ("/proc/x", "no file can be made in /proc: name another directory"),
    ],
)
def test_what_cannot_be_written(words: list[str], called_so: str, file: str, why: str, here: Path) -> None:
    arguments, begins = named(words, called_so, file)
    before = names(here)
    code, said = called(arguments)
    assert code == 1 and said.startswith(f"{begins}{why}") and said.count("\n") == 1
    assert names(here) == before


@pytest.mark.parametrize(("words", "called_so"), READ, ids=lambda one: one if isinstance(one, str) else " ".join(one))
@pytest.mark.parametrize(
    ("file", "why"),
    [
        ("file/x", "Not a directory: file is a file, and no directory"),
        ("no/way/x", "No such file or directory: there is no directory no"),
        ("other", "No such file or directory: {here} has no such file"),
        ("recordet.json", "No such file or directory: did you mean recorded.json?"),
    ],
)
def test_what_cannot_be_read(words: list[str], called_so: str, file: str, why: str, here: Path) -> None:
    arguments, begins = named(words, called_so, file)
    code, said = called(arguments)
    assert code == 1 and said == f"{begins}{why.format(here=here)}\n"
    assert not (here / "new").exists()


@pytest.mark.parametrize(("words", "called_so"), READ, ids=lambda one: one if isinstance(one, str) else " ".join(one))
def test_a_directory_in_the_place_of_what_is_read(words: list[str], called_so: str) -> None:
    arguments, begins = named(words, called_so, "dir")
    code, said = called(arguments)
    assert code == 1 and said.startswith(f"{begins}") and said.count("\n") == 1
    assert "is a directory: name a" in said or "has neither images nor files" in said


@pytest.mark.parametrize(
    ("out", "why"),
    [
        ("file", "-o {here}/file: a file is there, and no directory: name another directory, or move that file away"),
        ("file/x", "-o {here}/file/x: a file is there at {here}/file, and no directory: name another directory"),
        ("/proc/x", "-o /proc/x: no directory can be made in /proc: name another"),
    ],
)
def test_a_pack_s_folder_is_looked_at_before_its_sources(out: str, why: str, here: Path) -> None:
    code, said = called(["pack", "no such source", "-o", out])
    assert code == 1 and said.startswith(f"tfquiver: {why.format(here=here)}")


def test_what_is_no_file_is_never_replaced_by_one(here: Path) -> None:
    """`durable.write` gives its file the name, whatever had it: as root it took /dev/null's, too."""
    os.mkfifo(here / "pipe")
    code, said = called(["digest", "build", "file", "-o", "pipe"])
    assert code == 1 and said.startswith("tfquiver: --output=pipe: is no file, and another would take its place")
    assert stat.S_ISFIFO((here / "pipe").stat().st_mode)
    named_files.check_output("--json=pipe", Path("pipe"), replaced=False)  # written into, it is


@pytest.mark.skipif(os.geteuid() != 0, reason="is another user for a moment: run it as root")
def test_another_s_file_in_a_directory_such_as_tmp_is_found_before_anything_is_made(here: Path) -> None:
    """It cannot be replaced there, although files can be made beside it: that came out when all work was done."""
    here.chmod(0o1777)
    (here / "file").chmod(0o666)

    def checked() -> None:
        named_files.check_output("new", Path("new"))
        with pytest.raises(errors.PermissionError_, match="may not write over it: name a file else"):
            named_files.check_output("--output=file", Path("file"))

    as_user(54_321, 54_321, [], checked)
    as_user(54_321, 54_321, [], lambda: Path("new").write_bytes(b""))
    as_user(54_321, 54_321, [], lambda: named_files.check_output("new", Path("new")))  # its own
    here.chmod(0o777)
    as_user(54_321, 54_321, [], lambda: named_files.check_output("file", Path("file")))


def test_what_can_be_written_is_left_as_it_was(here: Path) -> None:
    (here / "file").write_bytes(b"as it was")
    (here / "link").symlink_to("no file yet")
    for replaced in (False, True):
        for file in ("file", "new", "dir/new", "link"):
            named_files.check_output(file, Path(file), replaced=replaced)
    named_files.check_directory("dir/a/b", Path("dir/a/b"))
    assert (here / "file").read_bytes() == b"as it was"
    assert names(here) == ["dir", "file", "link", "recorded.json"] and names(here / "dir") == []


@contextlib.contextmanager
def full_disk() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk(here: Path) -> None:
    why = "File too large: make room there, or name a file elsewhere"
    with full_disk():
        code, said = called(["token", "new", "job", "x", "--out=token"])
        with pytest.raises(errors.ResourceExhaustedError, match=f"recording: {why}"):
            trace.write(Path("recording"), Recorder(), 0, False)
    assert (code, said) == (1, f"tfquiver: --out=token: {why}\n")
    assert names(here) == ["dir", "file", "recorded.json"]


def test_the_home_is_found_behind_an_equals_sign(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There the shell leaves ~ as it is."""
    monkeypatch.setenv("HOME", str(here / "dir"))
    assert called(["token", "new", "job", "x", "--out=~/token"])[0] == 0
    assert (here / "dir" / "token").exists()
    assert "dir/token" in called(["dashboard", "h:1", "--key_file=~/tokin"])[1]
    assert (
        "argument --out: ~nobody-of-this-name/x: Could not"
        in called(["token", "new", "job", "x", "--out=~nobody-of-this-name/x"])[1]
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may be another user")
def test_what_another_user_may_not(here: Path) -> None:
    for path in (here, *list(here.parents)[:3]):
        path.chmod(path.stat().st_mode | 0o011)
    here.chmod(0o755)
    (here / "file").chmod(0o600)
    (here / "dir").chmod(0o700)
    (here / "open").mkdir()
    (here / "open").chmod(0o777)
    main.parser()  # imports all that it needs, which that user may not read
    assert as_typed
    tables = [
        (
            READ,
            "file",
            "Permission denied: it is root's, and nobody may not read it: have that changed (chmod), or name",
        ),
        (
            READ,
            "dir/x",
            f"Permission denied: nobody may not look into {here / 'dir'}, which is root's: name a file else",
        ),
        (WRITTEN, "new", f"Permission denied: nobody may not write in {here}: name a file elsewhere"),
    ]

    def told() -> list[str]:
        os.chdir(here)
        wrong = []
        for table, file, why in tables:
            for words, called_so in table:
                if "--plot={}" in words or (words[0], file) == ("pack", "file"):
                    continue  # first it is looked for matplotlib, which that user may not; at how a name ends
                arguments, begins = named(words, called_so, file)
                code, said = called(["open/new" if one == "new" and table is READ else one for one in arguments])
                if code != 1 or not said.startswith(f"{begins}{why}"):
                    wrong.append(f"{arguments}: {code}, {said}")
        return wrong

    assert as_user(65534, 65534, [], told) == []


def test_of_a_file_that_can_be_read_nobody_is_told_to_make_it_so(here: Path) -> None:
    """What no command has named ends there, too: a file that was to be written."""
    file = here / "file"
    error = PermissionError(errno.EACCES, "Permission denied", str(file))
    assert str(named_files.not_read(error, str(file), file)) == f"{file}: Permission denied"
