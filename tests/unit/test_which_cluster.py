"""Every command that asks a cluster finds the one that runs on this machine, where none is named."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tfquiver import durable, errors
from tfquiver.cli import calls
from tfquiver.cli.main import main, parser
from tfquiver.cli.up_stop_logs_clear import unnamed
from tfquiver.cluster_address import running, running_nodes
from tfquiver.node_daemon_and_notes_in_directories import server_file, up_file

NOBODY = "localhost:1"
ASKS = [
    ["dataset", "list"],
    ["dataset", "show", "x"],
    ["dataset", "set-cache", "x", "none"],
    ["dataset", "share", "x"],
    ["dataset", "delete", "x"],
    ["dataset", "prefetch", "x"],
    ["dataset", "pin", "x"],
    ["dataset", "unpin", "x"],
    ["dataset", "evict", "x"],
    ["dataset", "refresh", "x"],
    ["dataset", "place", "x"],
    ["dataset", "suggest", "x"],
    ["limit", "x", "1MB"],
    ["policy"],
    ["forget", "x"],
    ["status"],
    ["explain", "x"],
    ["health", "--timeout_s", "0.1"],
    ["doctor", "--no_op"],
    ["plan"],
    ["trace", "record", "x"],
]
# They first start a node, serve a page, read files of the directory, or look for another package.
OTHERWISE = [["dataset", "create"], ["warm"], ["mount"], ["dashboard"], ["logs"]]
# A directory that may be none yet; what asks nobody without --service; what deletes, or ends.
NAMED = [["up"], ["digest", "build"], ["clear"], ["stop"]]


def node(directory: Path, coordinator: str) -> Path:
    directory.mkdir()
    fields = {"version": 1, "socket": "/s", "control": coordinator, "coordinator": coordinator, "node_id": "n"}
    (directory / "node.json").write_text(json.dumps(fields))
    return directory


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Path]:
    """The directories in which nodes run."""
    found: list[Path] = []
    monkeypatch.delenv("TFQUIVER_SERVICE", raising=False)
    monkeypatch.setattr(running_nodes, "directories", lambda: found)
    monkeypatch.setattr(running_nodes, "work_dirs", list)
    monkeypatch.setattr(calls, "CALL_S", 0.05)
    monkeypatch.chdir(tmp_path)
    return found


@pytest.mark.parametrize("command", ASKS, ids=" ".join)
def test_it_is_found(command: list[str], here: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here.append(node(tmp_path / "cache", NOBODY))
    assert main(command) == 1
    told = capsys.readouterr()
    assert NOBODY in told.err + told.out or str(tmp_path)[:50] in told.err


def test_what_is_cleared_has_to_be_named(here: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["clear"]) == 1
    assert "clear: which cache? no node of yours runs on this machine: name a cache dir" in capsys.readouterr().err
    here += [node(tmp_path / "a cache", NOBODY), node(tmp_path / "alone", "unix:/x/coordinator.sock")]
    assert main(["clear"]) == 1
    assert capsys.readouterr().err == (
        f"tfquiver: clear: which of the caches here? tfquiver clear '{here[0]}' (all nodes of coordinator {NOBODY}) or "
        f"tfquiver clear {here[1]} (a cache directory by itself)\n"
    )


def test_what_only_happens_to_run_here_is_not_stopped_unnamed(
    here: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may be a colleague's, of the same name on this machine."""
    assert main(["stop"]) == 1
    assert "stop: which directory? nothing of yours runs on this machine" in capsys.readouterr().err
    here.append(node(tmp_path / "a", NOBODY))
    assert main(["stop"]) == 1
    said = (
        f"stop: which of what runs here under your name? tfquiver stop {here[0]} (its node, of coordinator {NOBODY}); "
        "--yes stops the only node, if it is yours and nobody reads\n"
    )
    assert said in capsys.readouterr().err
    assert main(["stop", "--yes"]) == 0
    assert "a: nothing runs there" in capsys.readouterr().out.replace("\n", "")
    monkeypatch.setenv("TFQUIVER_SERVICE", str(here[0]))
    assert main(["stop"]) == 0
    monkeypatch.delenv("TFQUIVER_SERVICE")
    here.append(node(tmp_path / "b", NOBODY))
    assert main(["stop", "--yes"]) == 1
    what = f"(its node, of coordinator {NOBODY})"
    assert f"? tfquiver stop {here[0]} {what} or tfquiver stop {here[1]} {what}\n" in capsys.readouterr().err
    assert main(["stop", str(here[1])]) == 0


def test_the_only_node_is_stopped_unnamed_only_if_it_is_ones_own_and_nobody_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at, readers = node(tmp_path / "up", NOBODY), [0]
    named = f" tfquiver stop {at}"

    def refused() -> str:
        with pytest.raises(errors.InvalidArgumentError) as raised:
            unnamed.check(at, lambda: readers[0])
        assert str(raised.value).endswith(named)
        return str(raised.value)

    unnamed.check(at, lambda: 1)  # nothing runs there any more
    with holding(at / "node.lock"):
        assert "it was started neither by `tfquiver up` nor by tfquiver.dataset" in refused()
    with holding(at / up_file.LOCK_FILE):
        unnamed.check(at, lambda: readers[0])
        readers[0] = 2
        assert "not stopped without being named: 2 readers are connected to it. If it is" in refused()
        monkeypatch.setenv("HOME", str(tmp_path))
        assert "who started it has another home, '" in refused()
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
        assert "the directory is that of user " in refused()


def test_what_others_keep_running_is_stopped_with_them(
    here: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A server of `tfquiver up`, or a dispatcher's own node, would be started again, and is not stopped alone."""
    up, by_hand = node(tmp_path / "up", NOBODY), tmp_path / "dispatcher"
    by_hand.mkdir()
    here += [node(by_hand / "node", NOBODY), up]
    work_dirs = [up / "coordinator", up / "dispatcher", by_hand]
    monkeypatch.setattr(running_nodes, "work_dirs", lambda: work_dirs)
    with ExitStack() as held:
        for one in work_dirs[1:]:
            one.mkdir(exist_ok=True)
            server_file.write(one, "dispatcher", "localhost:2", NOBODY)
            held.enter_context(holding(one / server_file.LOCKS["dispatcher"]))
        held.enter_context(holding(up / up_file.LOCK_FILE))
        assert main(["stop"]) == 1
    assert capsys.readouterr().err == (
        f"tfquiver: stop: which of what runs here under your name? tfquiver stop {by_hand} (its dispatcher (pid "
        f"{os.getpid()})) or tfquiver stop {up} (`tfquiver up`, all its servers)\n"
    )


@contextmanager
def holding(lock: Path) -> Iterator[None]:
    """As a server does, its process id in it."""
    descriptor = durable.lock_file(lock)
    try:
        assert durable.try_lock(descriptor)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def test_no_command_is_forgotten() -> None:
    known = [[word for word in words if not word.startswith("-")] for words in ASKS + OTHERWISE + NAMED]
    for words in of_clusters(parser(), []):
        assert any(words == one[: len(words)] for one in known), words


def of_clusters(made: argparse.ArgumentParser, words: list[str]) -> Iterator[list[str]]:
    for action in made._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, command in action.choices.items():
                yield from of_clusters(command, [*words, name])
        elif action.dest == "service":
            yield words


def test_one_of_several_is_not_chosen_and_what_is_named_comes_first(
    here: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"no node of yours runs.*host:port.*SERVICE.*tfquiver up"):
        running.one_named_or_running("")
    one, of_the_same, other = (
        node(tmp_path / name, coordinator) for name, coordinator in (("a", "h:1"), ("b", "h:1"), ("c", "h:2"))
    )
    here[:] = [one, of_the_same, tmp_path / "just-starting"]
    assert running.one_named_or_running(None) == str(one)
    here.append(other)
    assert running.named_or_running(None) == [str(one), str(other)]
    both = rf"of the 2 clusters of this machine\? --service={one} \(coordinator h:1\), or --service={other} \(coordin"
    with pytest.raises(errors.InvalidArgumentError, match=both):
        running.one_named_or_running(None)
    assert running.one_named_or_running("h:3") == "h:3"
    monkeypatch.setenv("TFQUIVER_SERVICE", "h:4")
    assert running.one_named_or_running(None) == "h:4"
    assert running.one_named_or_running(other) == str(other)


def test_a_command_that_asks_twice_means_one_cluster(here: list[Path], tmp_path: Path) -> None:
    arguments = parser().parse_args(["dataset", "list"])
    here.append(node(tmp_path / "a", "h:1"))
    assert calls.where(arguments) == str(tmp_path / "a")
    here.append(node(tmp_path / "b", "h:2"))
    assert calls.where(arguments) == str(tmp_path / "a")


def test_a_cluster_is_named_by_a_directory_that_people_know(
    here: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A dispatcher's own node is one of it, too, and may come first by its name."""
    (tmp_path / "a-dispatcher").mkdir()
    (tmp_path / "a-dispatcher" / "dispatcher.lock").touch()
    its, cache = node(tmp_path / "a-dispatcher" / "node", "h:1"), node(tmp_path / "my cache", "h:1")
    alone = node(tmp_path / "alone", "unix:/x/coordinator.sock")
    here[:] = [its, alone, cache]
    assert running.found() == [str(alone), str(cache)]
    assert main(["explain", "trial"]) == 1
    told = capsys.readouterr().err
    assert f"--service={alone} (a cache directory by itself), or --service='{cache}' (coordinator h:1)" in told
    assert told.endswith(f"; for example: tfquiver explain trial --service={alone}\n"), "to be pasted"
    here[:] = [its]
    assert running.found() == [str(its)], "where there is no other"
