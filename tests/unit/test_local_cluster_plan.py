"""What `tfquiver up` starts, on which ports, and what becomes of a server that ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfquiver import errors
from tfquiver.local_cluster import plan, ports, restarts
from tfquiver.local_cluster.plan import Wish
from tfquiver.local_cluster.restarts import Restarts
from tfquiver.local_cluster.supervisor import Supervisor
from tfquiver.node_daemon_and_notes_in_directories import up_file
from tfquiver.node_daemon_and_notes_in_directories.up_file import Ports

HERE = Path("/cache")


def names(wish: Wish) -> list[list[str]]:
    return [[server.name for server in step] for step in plan.servers(wish)]


def test_what_is_started_in_what_order() -> None:
    assert names(Wish(HERE)) == [["coordinator"], ["node"], ["dispatcher"], ["worker-0"]]
    assert names(Wish(HERE, workers=2))[-1] == ["worker-0", "worker-1"]
    assert names(Wish(HERE, workers=0)) == [["coordinator"], ["node"]], "no tf.data service without workers"


def test_who_waits_is_told_for_what() -> None:
    """TensorFlow takes ten seconds and more to load, twice."""
    told = [plan.progress(Wish(HERE, workers=2), up) for up in (1, 2, 3)]
    assert told == [
        "so far up: coordinator; starting: node ...",
        "so far up: coordinator, node; loading TensorFlow: dispatcher ...",
        "so far up: coordinator, node, dispatcher; loading TensorFlow: 2 workers ...",
    ]


def test_every_server_finds_the_others() -> None:
    got = Ports(1, 2, [3])
    wish = Wish(HERE, quota="5GiB", flags={"node": ["--codec=raw"], "worker": ["--port=9"]})
    lines = {server.kind: plan.arguments(server, wish, got) for step in plan.servers(wish) for server in step}
    assert lines["coordinator"] == ["--port=1", "--work_dir=/cache/coordinator"]
    assert lines["node"] == ["--cache_dir=/cache", "--coordinator=localhost:1", "--quota=5GiB", "--codec=raw"]
    assert lines["dispatcher"] == ["--port=2", "--work_dir=/cache/dispatcher", "--node_dir=/cache"]
    worker = ["--port=3", "--node_dir=/cache", "--dispatcher=localhost:2", "--connect_timeout_s=240", "--port=9"]
    assert lines["worker"] == worker


@given(st.integers(0, 9), st.integers(1, 65535), st.lists(st.integers(0, 65535), max_size=4))
def test_a_port_that_a_server_got_is_the_one_it_is_given_next_time(number: int, got: int, workers: list[int]) -> None:
    before = Ports(7, 8, workers)
    for server in (plan.ServerPlan("coordinator", "c"), plan.ServerPlan("dispatcher", "d"),
                   plan.ServerPlan("worker", "w", number)):  # fmt: skip
        after = plan.with_port(server, before, got)
        assert plan.port(server, after) == got
        assert before == Ports(7, 8, workers), "nothing is changed in place"
    assert plan.with_port(plan.ServerPlan("node", "n"), before, got) == before


def test_ports_asked_for_then_those_of_last_time_then_the_usual_ones_then_any() -> None:
    def free(*those: int) -> Ports:
        return ports.choose(None, None, Ports(11, 12, [13, 14]), 2, those.__contains__)

    assert free(11, 12, 13, 14, 5040, 5050) == Ports(11, 12, [13, 14])
    assert free(5040, 5050).coordinator == 5040 and free(5040, 5050).dispatcher == 5050
    assert ports.choose(0, 9, Ports(11, 12), 0, {9, 11}.__contains__) == Ports(0, 9)
    with pytest.raises(errors.UnavailableError, match=r"--dispatcher_port=9: something else listens there"):
        ports.choose(None, 9, Ports(), 1, set[int]().__contains__)


@pytest.mark.parametrize(("last", "workers", "taken", "chosen"), [
    ([13, 14], 2, {14}, [13, 0, 14]), ([13, 14], 2, {13, 14}, [0, 0, 13, 14]), ([13, 14, 15], 1, {15}, [13, 14, 15]),
    ([13, 14], 0, set(), [13, 14]), ([13], 3, set(), [13, 0, 0]), ([], 1, set(), [0]), ([0, 13, 13], 1, set(), [0, 13]),
    ([13, 14], 3, {13}, [0, 14, 0, 13]), (list(range(10, 1000)), 64, set(), list(range(10, 10 + up_file.MOST_PORTS))),
])  # fmt: skip
def test_ports_of_workers_that_are_no_more_come_behind_those_of_the_others(
    last: list[int], workers: int, taken: set[int], chosen: list[int]
) -> None:
    """The dispatcher's journal has them still, and the next `up` may want as many again."""
    assert ports.choose(None, None, Ports(1, 2, last), workers, lambda port: port not in taken).workers == chosen


def test_the_dispatcher_is_told_which_workers_were_taken_away() -> None:
    def told(workers: int, of: list[int]) -> list[str]:
        line = plan.arguments(plan.ServerPlan("dispatcher", "d"), Wish(HERE, workers=workers), Ports(1, 2, of))
        return [flag for flag in line if "former" in flag]

    assert told(1, [13, 14, 0, 15]) == ["--former_workers=localhost:14,localhost:15"]
    assert told(2, [13, 14]) == told(2, [13]) == told(1, [0, 0]) == []


def test_who_gets_another_port_than_the_usual_one_is_told() -> None:
    """Code with the usual port in it would reach somebody else's coordinator."""
    first = {5040: "`tfquiver up` (pid 7) in /first"}
    assert ports.passed_over(None, None, Ports(), Ports(0, 5050), lambda port: first.get(port, "")) == [
        "`tfquiver up` (pid 7) in /first has port 5040: the coordinator of this one takes another"
    ]
    assert ports.passed_over(None, None, Ports(11, 12), Ports(11, 5050), lambda port: first.get(port, "")) == [
        "something else has port 12: the dispatcher of this one takes another"
    ]
    assert ports.passed_over(7, 0, Ports(11, 12), Ports(7, 0), lambda port: "") == []


def test_a_port_that_lasts_is_none_of_those_that_connections_get(tmp_path: Path) -> None:
    own = tmp_path / "range"
    own.write_text("10010\t60999\n")
    assert {ports.lasting(lambda port: True, own) for _ in range(200)} == set(range(10_000, 10_010))
    assert ports.lasting(lambda port: port == 10_003, own) == 10_003
    assert ports.lasting(lambda port: False, own) == 0
    for text in ("10000 60999", "1024 65535", "", "x"):
        own.write_text(text)
        assert ports.lasting(lambda port: True, own) == 0, "any will do where it is not known"
    assert ports.lasting(lambda port: True, tmp_path / "none") == 0


def test_servers_that_start_side_by_side_are_given_different_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing listens on a port yet that another was given a moment ago."""
    monkeypatch.setattr(ports, "is_free", lambda port: True)
    one = Supervisor(Wish(HERE, workers=2), Ports(5040, 5050, [10_001]), HERE, {}, print)
    assert [one._is_unclaimed(port) for port in (5040, 5050, 10_001, 10_002)] == [False, False, False, True]


def test_pauses_grow_while_it_does_not_start() -> None:
    one = Restarts()
    pauses = []
    while not one.hopeless:
        pauses.append(one.pause_s)
        one.failed()
    assert pauses == sorted(pauses) and len(pauses) == restarts.MOST_FAILED and pauses[0] < 1
    assert "did not start 5 times" in one.hopeless


def test_a_start_that_succeeds_makes_up_for_those_that_failed() -> None:
    one = Restarts()
    for number in range(100):
        one.failed()
        one.started()
        one.ended(number * restarts.WITHIN_S)
        assert not one.hopeless


def test_one_that_starts_and_ends_at_once_is_given_up() -> None:
    one = Restarts()
    for number in range(restarts.MOST_ENDED):
        assert not one.hopeless
        one.ended(float(number))
        one.started()
    assert "ended 10 times within 60 s" in one.hopeless
