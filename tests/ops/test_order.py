"""The order of records: logged and replayed, deterministic, one stripe unit at a time."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from pathlib import Path

import pytest
import tensorflow as tf

from tests.ops.conftest import MakeNode, numbered
from tests.ops.test_checkpoint import with_symbolic
from tests.support.op_source import OpSource, drop_iterators, records_of
from tests.support.scripted_node import Connection, ScriptedNode, Session
from tfquiver.messages_and_binary_formats.reader_frames import ORDER_FILES
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.block_order import BlockOrder, order_seed

SHARDS = numbered(40, 30, size=20)
ALL = Counter(itertools.chain(*SHARDS))
POOL = {"shuffle_bytes": 8000, "readahead_bytes": 4000}
SEED = 77
GOLDEN = (
    b"1.4 1.1 4.3 4.0 0.2 1.3 1.0 0.1 0.3 5.0 0.4 0.0 5.3 5.1 2.3 2.0 "
    b"2.2 2.4 4.4 5.4 2.1 5.2 1.2 3.4 4.2 3.2 3.3 3.1 3.0 4.1"
)


def shuffled_todo(node: ScriptedNode, seed: int) -> None:
    """The node hands shards out in another order: the cache is in another state."""

    def on_open(connection: Connection) -> bool:
        todo = node.sessions[connection.session_id].todo
        random.Random(seed).shuffle(todo)
        return False

    node.on_open = on_open


@pytest.mark.parametrize("options", [{}, {"batch_size": 7}, {"shuffle_bytes": 0}, {"homogeneous": True}], ids=str)
def test_a_replay_is_what_was_served_bit_for_bit(
    make_node: MakeNode, tmp_path: Path, options: dict[str, object]
) -> None:
    node = make_node(SHARDS)
    node.place = lambda _, shard: {"unit": shard // 10 + 1}
    shuffled_todo(node, 1)
    served = records_of(OpSource(order_log=str(tmp_path / "log"), job="first", **POOL | options).repeat(2))
    assert Counter(served) == ALL + ALL
    drop_iterators()
    logs = sorted((tmp_path / "log").iterdir())
    assert [path.name for path in logs] == ["epoch-00000.tqo", "epoch-00001.tqo"]
    assert all(path.stat().st_size == 92 + 16 * 41 for path in logs)
    shuffled_todo(node, 2)
    again = {key: value for key, value in options.items() if key != "homogeneous"}
    replayed = records_of(OpSource(replay=str(tmp_path / "log"), job="again", **POOL | again).repeat(2))
    assert replayed == served
    assert records_of(OpSource(replay=str(logs[1]), job="one", **POOL | again)) == served[1200:]


def test_a_replay_goes_on_when_its_node_was_away(make_node: MakeNode, tmp_path: Path) -> None:
    node = make_node(SHARDS)
    served = records_of(OpSource(order_log=str(tmp_path / "log"), **POOL))
    drop_iterators()
    iterator = OpSource(replay=str(tmp_path / "log"), job="again", **POOL).as_numpy_iterator()
    replayed = list(itertools.islice(iterator, 500))
    node.hang_up()
    node.listen()
    assert replayed + list(iterator) == served


def test_a_log_that_was_cut_off_is_replayed_as_far_as_it_goes(make_node: MakeNode, tmp_path: Path) -> None:
    make_node(SHARDS)
    served = records_of(OpSource(order_log=str(tmp_path / "log"), **POOL))
    drop_iterators()
    path = tmp_path / "log" / "epoch-00000.tqo"
    path.write_bytes(path.read_bytes()[: 92 + 16 * 25 + 11])
    replayed = records_of(OpSource(replay=str(path), job="again", **POOL))
    assert Counter(replayed) == ALL
    # 25 shards had joined, of which the pool holds at most those 10 or so that it has room for.
    assert replayed[:300] == served[:300]


def test_what_cannot_be_replayed_is_named(make_node: MakeNode, tmp_path: Path) -> None:
    make_node(SHARDS)
    log = str(tmp_path / "log")
    records_of(OpSource(order_log=log, **POOL))
    drop_iterators()
    path = tmp_path / "log" / "epoch-00000.tqo"
    with pytest.raises(tf.errors.AlreadyExistsError, match=r"epoch-00000\.tqo exists"):
        records_of(OpSource(order_log=log, job="other", **POOL))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"epoch-00000\.tqo was written with shuffle_bytes=8000"):
        records_of(OpSource(replay=log, job="b", **POOL | {"shuffle_bytes": 9000}))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"epoch-00000\.tqo is of another data set"):
        records_of(OpSource(replay=log, job="c", digest_id=bytes(32), **POOL))
    whole = path.read_bytes()
    path.write_bytes(whole[:200] + bytes([whole[200] ^ 1]) + whole[201:])
    with pytest.raises(tf.errors.DataLossError, match=r"epoch-00000\.tqo: it is damaged at byte 188"):
        records_of(OpSource(replay=log, job="d", **POOL))
    path.unlink()
    with pytest.raises(tf.errors.NotFoundError, match=r"epoch-00000\.tqo"):
        records_of(OpSource(replay=log, job="e", **POOL))


def test_an_iterator_that_replays_cannot_be_saved(make_node: MakeNode, tmp_path: Path) -> None:
    make_node(SHARDS)
    records_of(OpSource(order_log=str(tmp_path / "log"), **POOL))
    iterator = iter(OpSource(replay=str(tmp_path / "log"), job="again", **POOL))
    next(iterator)
    with pytest.raises(tf.errors.UnimplementedError, match="cannot be saved"):
        tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "checkpoint"))


def deterministic(node: ScriptedNode) -> None:
    """The scripted node hands out whole blocks, as the coordinator would."""
    lengths, records = [s.length_bytes for s in node.shards], [s.records for s in node.shards]
    order_of: dict[int, BlockOrder] = {}  # by session
    done_of: dict[int, set[int]] = {}

    def on_open(connection: Connection) -> bool:
        opened, session = node.opens[-1], node.sessions[connection.session_id]
        if not opened.session_id:
            bits = opened.done or bytes(5)
            done_of[id(session)] = {shard for shard in range(40) if bits[shard // 8] >> shard % 8 & 1}
            seed = None if opened.order == ORDER_FILES else opened.order_seed or order_seed(SEED, session.epoch)
            order_of[id(session)] = BlockOrder(lengths, records, seed, opened.block_bytes)
        node.todo_key = list(order_of[id(session)].shards).index
        return False

    def place(session: Session | None, shard: int) -> dict[str, int]:
        assert session
        order = order_of[id(session)]
        here, block = order.place(shard), order.block_of(shard)
        read = session.acked.union(done_of[id(session)])
        mates = [other for other in order.shards[order.first[block] : order.first[block + 1]] if other not in read]
        return {
            "position": here.position,
            "block_offset": here.offset,
            "block_records": here.records,
            "block_shards": len(mates),
        }

    node.on_open, node.place = on_open, place


OPTIONS = {"deterministic": True, "seed": SEED, "with_position": True, **POOL}


def pairs_of(dataset: tf.data.Dataset) -> list[tuple[int, bytes]]:
    return [(int(position), record) for position, record in dataset.as_numpy_iterator()]


def test_a_deterministic_order_is_whole_and_numbered(make_node: MakeNode) -> None:
    node = make_node(SHARDS)
    deterministic(node)
    pairs = pairs_of(OpSource(**OPTIONS))
    assert [position for position, _ in pairs] == list(range(1200))
    assert Counter(record for _, record in pairs) == ALL
    opened = node.opens[0]
    assert (opened.order, opened.seed, opened.block_bytes, opened.order_seed) == (1, SEED, 8000, 0)
    positions, records = next(OpSource(batch_size=50, job="b", **OPTIONS).as_numpy_iterator())
    assert list(zip(positions.tolist(), records.tolist(), strict=True)) == pairs[:50]


def test_a_deterministic_iterator_is_restored_exactly(make_node: MakeNode, tmp_path: Path, seed: int) -> None:
    node = make_node(SHARDS)
    deterministic(node)
    whole = pairs_of(OpSource(**OPTIONS))
    rng = random.Random(seed)
    iterator = iter(OpSource(job="restored", **OPTIONS))
    found: list[tuple[int, bytes]] = []
    for _ in range(3):
        for position, record in itertools.islice(iterator, rng.randrange(300)):
            found.append((int(position), record.numpy()))
        prefix = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "checkpoint"))
        iterator = iter(OpSource(job="restored", **OPTIONS))
        tf.train.Checkpoint(iterator=iterator).read(prefix).assert_consumed()
    found += [(int(position), record.numpy()) for position, record in iterator]
    assert found == whole


@pytest.mark.parametrize("symbolic", [False, True], ids=["plain", "symbolic"])
@pytest.mark.parametrize("saved_after", [200, 400, 401, 1000])
def test_epochs_after_a_restore_are_those_that_come_next(
    make_node: MakeNode, tmp_path: Path, saved_after: int, symbolic: bool
) -> None:
    """Whatever the job, or another of its processes, has read since the checkpoint."""
    node = make_node(numbered(40, 10, size=60))
    deterministic(node)
    options = OPTIONS | {"with_position": False}

    def pipeline(job: str) -> tf.data.Dataset:
        return with_symbolic(OpSource(400, job=job, **options).repeat(4), symbolic)

    whole = list(pipeline("whole").as_numpy_iterator())
    assert len({tuple(whole[at : at + 400]) for at in range(0, 1600, 400)}) == 4
    iterator = iter(pipeline("job"))
    found = [record.numpy() for record in itertools.islice(iterator, saved_after)]
    prefix = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "checkpoint"))
    list(itertools.islice(iterator, 500))
    for job in ("job", "another"):
        iterator = iter(pipeline(job))
        tf.train.Checkpoint(iterator=iterator).read(prefix).assert_consumed()
        assert found + [record.numpy() for record in iterator] == whole


def test_a_deterministic_order_survives_a_node_that_was_away(make_node: MakeNode) -> None:
    node = make_node(SHARDS)
    deterministic(node)
    whole = pairs_of(OpSource(**OPTIONS))
    iterator = OpSource(job="away", **OPTIONS).as_numpy_iterator()
    found = [(int(position), record) for position, record in itertools.islice(iterator, 500)]
    node.hang_up()
    node.listen()
    found += [(int(position), record) for position, record in iterator]
    assert found == whole


def test_units_are_read_one_at_a_time(make_node: MakeNode) -> None:
    node = make_node(SHARDS)
    node.place = lambda _, shard: {"unit": shard // 10 + 1}
    found = records_of(OpSource(homogeneous=True, batch_size=20, **POOL))
    assert Counter(found) == ALL
    units = [int(record.split(b".")[0]) // 10 for record in found]
    assert len(list(itertools.groupby(units))) == 4
    assert node.opens[0].homogeneous and node.opens[0].batch_records == 20


def test_the_golden_log_gives_the_sequence_it_always_gave(make_node: MakeNode) -> None:
    make_node(numbered(6, 5))
    golden = Path(__file__).parents[1] / "golden" / "order_log_v1"
    replayed = records_of(OpSource(replay=str(golden), shuffle_bytes=300, readahead_bytes=200))
    assert b" ".join(replayed) == GOLDEN
