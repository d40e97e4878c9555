"""Which sessions all trainers have left: by what a dispatcher writes of its clients; time is an argument."""

from __future__ import annotations

from collections.abc import Set
from pathlib import Path

from tests.support.unfinished_epoch import KEYS, A, B, News, Service, graph
from tests.unit.test_task_table import epoch, table
from tfquiver.clock import ManualClock
from tfquiver.scanning import tfrecord
from tfquiver.service.dispatcher.journal import journal_reader as journal
from tfquiver.service.dispatcher.lost_workers_and_leftover_tasks.departures import READERS_GO_S, Departures
from tfquiver.service.dispatcher.lost_workers_and_leftover_tasks.reaper import Reaper
from tfquiver.tensorflow_dispatcher_and_worker_connections import proto_wire

GRAPHS = {"ours": {"key"}, "both": {"key", "other"}}


def keys_of(names: Set[str]) -> dict[str, set[str]]:
    return {name: GRAPHS[name] for name in names if name in GRAPHS}


def test_an_epoch_is_left_when_its_last_client_has() -> None:
    made = table(*epoch(1, A, B))
    assert (made.left(), made.attended()) == (set(), set()), "nobody has come yet"
    for client in (5, 6):
        made.apply(journal.ClientCame(client, 1))
    made.apply(journal.ClientLeft(5))
    assert (made.left(), made.attended()) == (set(), {"ours"})
    made.apply(journal.ClientLeft(6))
    assert (made.left(), made.attended()) == ({"ours"}, set())
    made.apply(journal.ClientCame(7, 1))
    assert (made.left(), made.attended()) == (set(), {"ours"}), "another one goes on with it"


def test_who_leaves_what_is_over_leaves_nothing() -> None:
    made = table(*epoch(1, A), journal.ClientCame(5, 1), journal.TaskOver(10, finished=True), journal.ClientLeft(5))
    assert (made.left(), made.attended()) == (set(), set())
    for update in (journal.ClientCame(6, 1), journal.ClientLeft(6), journal.ClientLeft(7)):
        made.apply(update)
    assert (made.left(), made.attended()) == (set(), set()), "late news of a forgotten epoch"


def test_a_session_stays_left_until_its_readers_have_gone() -> None:
    clock = ManualClock()
    departures, made = Departures(clock), table(*epoch(1, A), journal.ClientCame(5, 1))
    departures.look(made, keys_of)
    assert departures.left == set()
    made.apply(journal.ClientLeft(5))
    departures.look(made, keys_of)
    assert departures.left == {"key"}
    clock.advance(2 * READERS_GO_S)
    departures.look(made, keys_of)
    assert departures.left == {"key"}, "however long the dispatcher waits for another client"
    made.apply(journal.IterationDropped(1))
    clock.advance(READERS_GO_S - 1)
    departures.look(made, keys_of)
    assert departures.left == {"key"}, "its worker has not heard of it"
    clock.advance(1)
    departures.look(made, keys_of)
    assert departures.left == set()


def test_what_is_read_by_another_iteration_is_not_left() -> None:
    """Of a loop that breaks off each epoch, say; or of two pipelines from one source."""
    departures = Departures(ManualClock())
    made = table(*epoch(1, A), journal.ClientCame(5, 1), journal.ClientLeft(5))
    departures.look(made, keys_of)
    assert departures.left == {"key"}
    for update in (*epoch(2, A, dataset="both"), journal.ClientCame(6, 2)):
        made.apply(update)
    departures.look(made, keys_of)
    assert departures.left == set()
    made.apply(journal.ClientLeft(6))
    departures.look(made, keys_of)
    assert departures.left == {"key", "other"}


def test_graphs_are_read_when_somebody_has_left_only() -> None:
    asked = list[Set[str]]()

    def asks(names: Set[str]) -> dict[str, set[str]]:
        asked.append(names)
        return keys_of(names)

    departures, made = Departures(ManualClock()), table(*epoch(1, A), journal.ClientCame(5, 1))
    departures.look(made, asks)
    assert asked == []
    made.apply(journal.ClientLeft(5))
    departures.look(made, asks)
    assert asked == [{"ours"}]


def test_the_reaper_says_who_has_left_by_what_the_dispatcher_wrote(tmp_path: Path) -> None:
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets" / "1000").write_bytes(graph(KEYS[0]))
    updates = (
        proto_wire.text(14, proto_wire.integer(1, 5000) + proto_wire.text(3, "1000")),
        proto_wire.text(2, proto_wire.integer(1, 2000) + proto_wire.integer(2, 5000)),
        proto_wire.text(3, proto_wire.integer(1, 4000) + proto_wire.integer(2, 2000) + proto_wire.text(4, A)),
        proto_wire.text(6, proto_wire.integer(1, 2000) + proto_wire.integer(2, 3000)),
        proto_wire.text(7, proto_wire.integer(1, 3000)),
    )
    (tmp_path / journal.JOURNAL_DIR).mkdir()
    file = tmp_path / journal.JOURNAL_DIR / "journal_0"
    file.write_bytes(b"".join(map(tfrecord.frame, updates[:-1])))
    clock = ManualClock()
    reaper = Reaper(tmp_path, Service(), News(clock), clock=clock)
    reaper.step()
    assert reaper.left == set()
    file.write_bytes(b"".join(map(tfrecord.frame, updates)))
    reaper.step()
    assert reaper.left == {KEYS[0]}
