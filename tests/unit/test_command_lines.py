"""`tfquiver` with arguments nobody should type: an exit code, one line that says what is wrong, never a traceback.

No server is there, and nothing outside the test's directory is read. The four servers' own flags: tests/contract.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tests.support.bad_words import WORDS
from tfquiver import errors
from tfquiver.cli import calls
from tfquiver.cli.doctor import machine
from tfquiver.cli.main import main
from tfquiver.cluster_address import running_nodes
from tfquiver.grpc_plumbing import addresses
from tfquiver.sizes_durations_amounts import sizes

COMMANDS = [
    ["dataset", "list"],
    ["dataset", "show"],
    ["dataset", "set-cache"],
    ["digest", "build"],
    ["digest", "show"],
    ["digest", "verify"],
    ["status"],
    ["doctor", "--no_op"],
    ["stop"],
    ["clear"],
    ["up", "localhost:1"],
    ["token", "new"],
    ["trace", "record"],
    ["plan"],
    ["demo", "--no-such-option"],
    [],
]
OPTIONS = [
    "--service", "--auth_token_file", "--json", "--rotation", "--chunks", "--partitions", "--sessions", "-o", "--name",
    "--min_shard", "--target_shard", "--max_shard", "--workers", "--files", "--content", "--out", "--version", "--",
]  # fmt: skip
LINES = 400


@pytest.fixture(autouse=True)
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is drawn stops and clears what it finds: other tests' nodes are none of it."""
    monkeypatch.setattr(running_nodes, "directories", list)
    monkeypatch.setattr(running_nodes, "work_dirs", list)


def drawn(rng: random.Random) -> list[str]:
    arguments = list(rng.choice(COMMANDS))
    for _ in range(rng.randint(0, 5)):
        arguments.append(rng.choice(OPTIONS) if rng.random() < 0.5 else rng.choice(WORDS))
    return arguments


def call(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    try:
        code = main(arguments)
    except SystemExit as stopped:  # argparse
        code = int(stopped.code or 0)
    return code, *capsys.readouterr()


@pytest.mark.slow
@pytest.mark.long
def test_drawn_at_random(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(seed)
    monkeypatch.delenv("TFQUIVER_SERVICE", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(calls, "CALL_S", 0.01)
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    codes = set()
    for arguments in (["token", "new", "job", "x"], *(drawn(rng) for _ in range(LINES))):
        code, out, err = call(arguments, capsys)
        codes.add(code)
        assert code in (0, 1, 2), arguments
        assert "Traceback" not in err + out, arguments
        if code == 1 and arguments[:1] == ["doctor"] and not err:  # what it finds is what was asked for
            assert "fail" in out, arguments
        elif code == 1:
            (line,) = err.strip().split("\n")
            as_json = "--json" in arguments and line.startswith("{")
            said = json.loads(line)["error"] if as_json else line
            assert (as_json or line.startswith("tfquiver: ")) and said.isprintable(), (arguments, err)
        if code == 2:
            assert ": error: " in err.strip().rpartition("\n")[2], (arguments, err)
    assert codes == {0, 1, 2}, "the words reach no command any more"


@pytest.mark.parametrize("command", ["doctor", "logs", "status"])
def test_a_name_longer_than_a_path_can_be(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # What `doctor` asks of a process of its own takes five seconds, and is not asked here.
    monkeypatch.setattr(machine, "_LOAD", """print('{"tensorflow": "2", "library": "op.so"}')""")
    code, out, err = call([command, "9" * 300], capsys)
    assert code == 1
    assert "Traceback" not in out + err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["digest", "build", "x", "-o", "/"], "--output=/: give the name of a file"),
        (["digest", "build", "x", "-o", ""], "--output=.: give the name of a file"),
        (["digest", "build", "x", "-o", "."], "--output=.: give the name of a file"),
        (["digest", "build", "x", "-o", "o", "--min_shard", "9" * 400], "not a size: '9999"),
        (["policy", "", "--service", "h:1"], "POLICY: '' is no name; leave it out"),
        (["dataset", "set-cache", "x", "auto", "--chunks=5", "--service", "h:1"], "auto: --rotation, --chunks and "),
        (["dataset", "set-cache", "x", "999999999PiB", "--service", "h:1"], "'999999999PiB' is not a cache setting"),
        (["dataset", "set-cache", "x", "cooperative:" + "9" * 400, "--service", "h:1"], "': not a size: '9999"),
        (
            ["dataset", "set-cache", "x", "cooperative:5mb", "--service", "h:1"],
            "'cooperative:5mb': not a size: '5mb'; write 5MB",
        ),
        (["status", "x" * 5000], "neither host:port nor a directory"),
        (["status", "localhost:99999"], "neither host:port nor a directory"),
        (["status", "\0"], "neither host:port nor a directory"),
        (["status", "h:1", "--sessions", "9" * 400], "is not a number from 1"),
        (["status", "h:1", "--sessions", "-1"], "is not a number from 1"),
        (["status", "h:1", "--auth_token_file", "binary"], "--auth_token_file=binary: the first line is not ASCII"),
        (
            ["dataset", "list"],
            "which cluster? no node of yours runs on this machine: give a coordinator (host:port)",
        ),
        (["up"], "up: which directory? "),
        (["health"], "which cluster? "),
        (["health", "h:1", "--timeout_s", "nan"], "is not a number of seconds"),
        (["up", "localhost:1"], "up: give a directory for what is cached, not an address"),
        (["up", "\0"], "null"),
        (["dataset", "create", "n\udcff", "--source", "/x", "--service", "h:1"], "'n\\udcff' is not text that can be"),
        (["up", "x", "--workers", "-1"], "is not a number from 0 to 64"),
        (["up", "x", "--quota", "much"], "'much' is not a size"),
        (["up", "x", "--port", "65536"], "'65536' is not a port"),
        (["up", "binary"], "binary: a file is there, and no directory: name another"),
        (
            ["stop", "localhost:1"],
            "stop: 'localhost:1' is not a cache directory of this machine, but an address: name ",
        ),
        (["stop"], "stop: which directory? "),
        (["clear"], "clear: which cache? "),
        (["warm", "x"], "which cluster? "),
        (["mount", "x", "y"], "which cluster? "),
        (["stop", "nothing"], "stop: 'nothing' is not a cache directory of this machine"),
        (["clear", "nothing"], "neither host:port nor a directory"),
        (["warm", "nothing", "--service", "h:1"], "nothing"),
        (["digest", "build", "x", "-o", "o", "--workers", "0"], "is not a number from 1"),
        (["trace", "record", "x"], "which cluster? "),
        (["trace", "record", "binary", "--service", "h:1"], "binary: there already"),
        (["plan"], "which cluster? "),
        (["plan", "--epochs", "nan"], "'nan' is no number of epochs"),
        (["plan", "binary", "--service", "h:1"], "--service and a file: which?"),
        (["plan", "h:1", "--trace", "binary"], "which?"),
        (["plan", "binary", "--epochs", "3"], "--epochs: a file says itself"),
        (["sim"], "which jobs? give a SCENARIO.json, or --trace FILE"),
        (["sim", "--trace", "binary"], "binary: not JSON"),
        (["digest", "show", "a\nb\x1b[31m"], "a\\nb\\x1b[31m"),
        (["digest", "show", "x" * 5000], "File name too long"),
    ],
)
def test_what_is_wrong_is_said(
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TFQUIVER_SERVICE", raising=False)
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    code, _, err = call(arguments, capsys)
    assert code in (1, 2)
    assert said in err.strip().rpartition("\n")[2]


@pytest.mark.parametrize(
    "arguments",
    [
        ["status", "nothing"],
        ["explain", "x", "--service", "nothing"],
        ["dataset", "list", "nothing"],
        ["dataset", "prefetch", "x", "--service", "nothing"],
        ["plan", "--service", "nothing"],
        ["sim", "nothing"],
    ],
)
def test_of_who_asks_for_json_the_error_is_json(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = call([*arguments, "--json"], capsys)
    assert (code, out) == (1, "")
    assert list(json.loads(err)) == ["error"]


def test_two_dashes_twice_are_no_word(capsys: pytest.CaptureFixture[str]) -> None:
    """argparse takes them for an empty list, which no command is prepared for."""
    code, _, err = call(["dataset", "set-cache", "x", "--", "--"], capsys)
    assert code == 2
    assert "argument SETTING: expected one argument" in err


def test_sizes() -> None:
    assert sizes.parse_bytes("9007199254740993") == 9007199254740993, "not through a float"
    assert sizes.parse_bytes(" 1.5KiB ") == 1536
    assert sizes.parse_bytes("1023PiB") == 1023 << 50
    for text in ("1024PiB", "9" * 400, "1e400", "inf", "nan", "-1", "", "٣MB", "1" * 20 + "PB"):
        with pytest.raises(errors.InvalidArgumentError) as refused:
            sizes.parse_bytes(text)
        assert len(str(refused.value)) < 200


def test_an_address_has_a_port_that_exists() -> None:
    for good in ("h:1", "10.0.0.1:65535", "[::1]:5040", "unix:/run/x"):
        assert addresses.is_address(good)
    for bad in ("h", "h:0", "h:65536", "h:99999", "localhost:%port%", "h:1/2", "h:٣", "a b:1", "unix:x", ""):
        assert not addresses.is_address(bad)


@pytest.mark.parametrize("command", [["status"], ["dataset", "list"], ["digest", "show", "file"], ["warm", "uri"]])
def test_the_usage_of_the_command_is_shown_that_got_too_much(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([*command, "--bogus"])
    said = capsys.readouterr().err
    names = [word for word in command if word not in ("file", "uri")]
    assert said.startswith(f"usage: tfquiver {' '.join(names)} ") and "unrecognized arguments: --bogus" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["prefetch"], "there is no command 'prefetch': did you mean `tfquiver dataset prefetch`?"),
        (["statsu"], "there is no command 'statsu': did you mean `tfquiver status`?"),
        (["help"], "there is no command 'help': did you mean `tfquiver --help`?"),
        (["version"], "did you mean `tfquiver --version`?"),
        ([], "which command? `tfquiver --help` lists them"),
        (["dataset"], "which command? `tfquiver dataset --help` lists them"),
        (["dataset", "lst"], "there is no command 'lst': did you mean `tfquiver dataset list`?"),
        (["dataset", "warm"], "there is no command 'warm': did you mean `tfquiver warm`?"),
        (["dataset", "clear"], "there is no command 'clear': did you mean `tfquiver clear`?"),
        (["dataset", "rename"], "there is no command 'rename': of the same source another name is made, for which"),
        (["xyzzy"], "there is no command 'xyzzy': `tfquiver --help` lists them all"),
        (
            ["dataset", "create", "mine", "/data/x-*"],
            "unrecognized arguments: /data/x-*; sources are given as --source",
        ),
        (["up", "d", "--quta=1GiB"], "unrecognized arguments: --quta=1GiB; did you mean --quota?"),
        (["status", "--xyzzy"], "unrecognized arguments: --xyzzy\n"),
        (
            ["--servce", "x y", "status", "--json"],
            "--servce: flags stand behind the command: did you mean `tfquiver status --json --service 'x y'`?",
        ),
        (["--service=h:1", "dataset", "list"], "did you mean `tfquiver dataset list --service=h:1`?"),
        (["--json", "status"], "did you mean `tfquiver status --json`?"),
        (["--verison"], "unrecognized arguments: --verison; did you mean --version?"),
        (["--service", "h:1"], "unrecognized arguments: --service; flags stand behind the command\n"),
        (["--xyzzy", "1", "status"], "unrecognized arguments: --xyzzy; `tfquiver status --help` lists what there is"),
        (
            ["status", "/etc/hosts", "/etc/group"],
            "unrecognized arguments: /etc/group; the shell has put files in the place of a pattern, perhaps: quote it",
        ),
    ],
)
def test_what_was_meant_is_said(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, error = call(arguments, capsys)
    assert code == 2 and said in error
