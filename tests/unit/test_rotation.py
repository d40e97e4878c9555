"""Both rotations under any interleaving: bounds kept, nobody cut off early, nobody starved."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.unit.rotation_world import TIMEOUT_S, World
from tfquiver import errors
from tfquiver.service.coordinator.chunk_rotation.board import Board
from tfquiver.service.coordinator.chunk_rotation.cyclic import Cyclic
from tfquiver.service.coordinator.chunk_rotation.dry import PAST_THE_CACHE_AFTER_S
from tfquiver.service.coordinator.chunk_rotation.interface import Decision
from tfquiver.service.coordinator.chunk_rotation.relevance import Relevance

ORDERS = ["cyclic", "relevance"]


class RotationMachine(RuleBasedStateMachine):
    world: World

    @initialize(
        order=st.sampled_from(ORDERS), shards=st.integers(1, 40), chunks=st.integers(1, 12),
        share=st.floats(0.05, 1.2), seed=st.integers(0, 999), left=st.frozensets(st.integers(0, 39)),
    )  # fmt: skip
    def begin(self, order: str, shards: int, chunks: int, share: float, seed: int, left: frozenset[int]) -> None:
        self.world = World(order, shards, chunks, share, seed, frozenset(s for s in left if s < shards))

    def draw_session(self, data: st.DataObject) -> str:
        return str(data.draw(st.sampled_from(sorted(self.world.samplers))))

    def draw_in_hand(self, data: st.DataObject, session: str) -> list[int]:
        shards = sorted(self.world.in_hand[session])
        return data.draw(st.lists(st.sampled_from(shards), unique=True)) if shards else []

    @precondition(lambda self: len(self.world.samplers) < 5)
    @rule()
    def open(self) -> None:
        self.world.open()

    @precondition(lambda self: self.world.samplers)
    @rule(data=st.data(), n=st.integers(1, 6))
    def take(self, data: st.DataObject, n: int) -> None:
        self.world.take(self.draw_session(data), n)

    @precondition(lambda self: self.world.samplers)
    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        session = self.draw_session(data)
        self.world.finish_reading(session, self.draw_in_hand(data, session))

    @precondition(lambda self: self.world.samplers)
    @rule(data=st.data())
    def lose_reader(self, data: st.DataObject) -> None:
        session = self.draw_session(data)
        self.world.give_back(session, self.draw_in_hand(data, session))

    @precondition(lambda self: self.world.samplers)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        self.world.close(self.draw_session(data))

    @rule(n=st.integers(1, 10))
    def load(self, n: int) -> None:
        self.world.load(n)

    @rule(n=st.integers(1, 10))
    def evict(self, n: int) -> None:
        self.world.evict(n)

    @rule(shards=st.lists(st.integers(0, 39), max_size=5))
    def lose_node(self, shards: list[int]) -> None:
        self.world.lose([shard for shard in shards if shard < len(self.world.lengths)])

    @rule(part=st.sampled_from([0.0, 0.3, 0.5, 0.8, 1.0]))
    def change_room(self, part: float) -> None:
        self.world.allocate(part)

    @rule(seconds=st.sampled_from([0.0, 1.0, TIMEOUT_S / 2, TIMEOUT_S * 2]))
    def wait(self, seconds: float) -> None:
        self.world.wait(seconds)

    @rule(data=st.data())
    def some_never_come_back(self, data: st.DataObject) -> None:
        sessions = sorted(self.world.samplers)
        stopped = data.draw(st.frozensets(st.sampled_from(sessions))) if sessions else frozenset()
        self.world.run_fairly(stopped)

    @invariant()
    def bounds(self) -> None:
        if hasattr(self, "world"):
            self.world.check()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.run_fairly()


TestRotationMachine = RotationMachine.TestCase
TestRotationMachine = pytest.mark.slow(TestRotationMachine)
TestRotationMachine.settings = settings(max_examples=100, stateful_step_count=25, deadline=None)


def loaded(world: World) -> None:
    """Brings in all that is to be loaded, and takes out all that is to go."""
    for _ in range(100):
        if not (world.decision.load or world.decision.evict):
            return
        world.evict(1 << 30)
        world.load(1 << 30)
    raise AssertionError("chunks come and go without anybody reading")


@pytest.mark.parametrize("order", ORDERS)
def test_one_that_stops_in_mid_chunk_holds_the_others_back_by_no_more_than_the_timeout(order: str) -> None:
    world = World(order, shards=60, chunks=6, share=0.34, seed=1, left=frozenset())
    stopped, other = world.open(), world.open()
    world.load(1 << 30)
    for _ in range(2):  # it stops in the middle of every chunk that is there
        world.take(stopped, 2)
        loaded(world)
    waited, longest = 0.0, 0.0
    while other in world.samplers:
        shards = world.take(other, 1)
        world.finish_reading(other, shards) if shards else world.wait(1.0)
        loaded(world)
        waited = 0.0 if shards else waited + 1.0
        longest = max(longest, waited)
    assert longest <= TIMEOUT_S + 1.0
    assert stopped in world.samplers
    world.run_fairly()


def test_cyclic_waits_for_a_reader_until_the_timeout_and_not_longer() -> None:
    world = World("cyclic", shards=60, chunks=6, share=0.34, seed=2, left=frozenset())
    slow, fast = world.open(), world.open()
    loaded(world)
    first = int(world.cache.layout.chunk_of[world.take(slow, 1)[0]])
    while shards := world.take(fast, 1):
        world.finish_reading(fast, shards)
        loaded(world)
    world.wait(TIMEOUT_S - 1.0)
    assert first in world.kept, "a reader keeps its chunk"
    world.wait(1.0)
    assert first not in world.kept, "but not for ever"


def test_relevance_loads_what_most_need_and_evicts_what_nobody_does() -> None:
    board = Board([10] * 6, 30)
    rotation = Relevance(board, TIMEOUT_S, lead_chunks=1.0, loading_at_once=1)
    board.session_opened("a", [10, 10, 10, 0, 0, 0])
    board.session_opened("b", [0, 0, 10, 10, 10, 0])
    assert rotation.decide(0.0).load == (2,), "the one that both need"
    board.shard_resident(2, 10)
    for session in ("a", "b"):
        board.use_started(session, 2)
        board.took(session, 2, 10)
        board.use_ended(session, 2)
    for _ in range(4):
        for chunk in rotation.decide(1.0).load:
            board.shard_resident(chunk, 10)
    assert rotation.decide(1.0) == Decision(), "there is no room, and what is there is enough to go on with"
    here = [chunk for chunk in range(6) if board.resident[chunk]]
    assert len(here) == 3 and 2 in here and 5 not in here
    session = "a" if board.sessions["a"].pending[here[0]] else "b"
    for chunk in here:
        if board.sessions[session].pending[chunk]:
            board.took(session, chunk, 10)  # it has less than a chunk left here
    assert rotation.decide(2.0).evict == (2,), "which nobody needs"


@pytest.mark.parametrize("kind", [Cyclic, Relevance])
def test_refuses_an_allocation_without_room_for_two_chunks(kind: type[Cyclic] | type[Relevance]) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="19 B have no room for two chunks of 20 B"):
        kind(Board([10, 10, 5], 19), TIMEOUT_S)


@pytest.mark.parametrize("order", ORDERS)
def test_a_chunk_that_cannot_be_completed_does_not_stop_the_others(order: str) -> None:
    """Some of its shards are gone from the store: those who lease them are told, the rest goes on."""
    world = World(order, shards=60, chunks=6, share=0.34, seed=3, left=frozenset())
    session = world.open()
    lost = set(world.decision.load)
    readable = sum(int(chunk) not in lost for chunk in world.cache.layout.chunk_of)
    assert 40 <= readable < 60
    for _ in range(2000):
        if len(world.read[session]) >= readable:
            break
        shards = [s for s in world.take(session, 1) if int(world.cache.layout.chunk_of[s]) not in lost]
        if shards:
            world.finish_reading(session, shards)
        world.evict(1 << 30)
        world.load(1 << 30) if not lost & set(world.decision.load) else None
        world.wait(5.0)
    assert len(world.read[session]) >= readable


@pytest.mark.parametrize("order", ORDERS)
def test_chunks_that_find_no_room_are_waited_for_by_nobody_who_has_read_them(order: str) -> None:
    """Nodes may be full of what the allocation does not know of: nothing that is to be loaded ever stands."""
    world = World(order, shards=60, chunks=6, share=0.34, seed=4, left=frozenset())
    world.full = True
    session = world.open()
    for _ in range(100):
        if shards := world.take(session, 1):
            world.finish_reading(session, shards)
        else:
            world.wait(TIMEOUT_S / 100)
        if session not in world.samplers:
            return
    raise AssertionError(f"{len(world.read[session])} of 60 are read after {world.now} s")


def test_relevance_makes_room_for_who_will_soon_have_nothing_left_and_not_before() -> None:
    board = Board([10] * 6, 30)
    rotation = Relevance(board, TIMEOUT_S)
    board.session_opened("fast", [10] * 6)
    board.session_opened("slow", [10] * 6)
    for _ in range(3):
        for chunk in rotation.decide(0.0).load:
            board.shard_resident(chunk, 10)
    first, second, _ = (chunk for chunk in range(6) if board.resident[chunk])

    def reads(chunk: int, size_bytes: int) -> None:
        board.use_started("fast", chunk)
        board.took("fast", chunk, size_bytes)
        if size_bytes == 10:
            board.use_ended("fast", chunk)

    reads(first, 10)
    reads(second, 10)
    assert rotation.decide(1.0) == Decision(), "it has a whole chunk left, and the slow one needs all three"
    reads(3 - first - second, 1)
    assert rotation.decide(2.0).evict in ((first,), (second,))


def test_relevance_gives_up_chunks_for_which_there_is_no_room_any_more() -> None:
    board = Board([10] * 6, 40)
    for chunk in (0, 1, 2):
        board.shard_resident(chunk, 10)
    board.shard_resident(3, 4)  # the node that had the rest of it is gone
    rotation = Relevance(board, TIMEOUT_S)
    assert rotation.decide(0.0).evict == ()
    board.session_opened("a", [10, 0, 10, 10, 0, 0])
    board.use_started("a", 0)
    board.allocate(30)
    assert rotation.decide(1.0).evict == (3,), "what is not whole goes first"
    board.allocate(20)
    assert rotation.decide(2.0).evict == (1, 3), "then what the fewest need"
    board.allocate(5)
    assert rotation.decide(3.0).evict == (1, 2, 3), "but not what is being read"
    board.took("a", 0, 10)
    board.use_ended("a", 0)
    assert rotation.decide(4.0).evict == (0, 1, 2, 3)
    for chunk, size_bytes in ((0, 10), (1, 10), (2, 10), (3, 4)):
        board.shard_gone(chunk, size_bytes)
    board.allocate(40)
    assert {2, 3} >= set(rotation.decide(5.0).load) != set(), "and it comes back with the room"


def test_of_a_full_cache_that_nobody_rotated_before_chunks_stay_as_far_as_they_fit() -> None:
    """A little of every chunk is there: the rest of none fits before some of it has gone."""
    board = Board([10] * 6, 30)
    for chunk, resident_bytes in enumerate([4, 6, 5, 5, 4, 6]):
        board.shard_resident(chunk, resident_bytes)
    rotation = Relevance(board, TIMEOUT_S)
    board.session_opened("a", [10] * 6)
    assert rotation.decide(0.0) == Decision(evict=(0, 3, 4)), "full: nothing is loaded before something has gone"
    board.shard_gone(3, 5)
    assert rotation.decide(1.0) == Decision((1,), evict=(0, 4)), "what goes makes room for what lacks least"
    board.shard_resident(1, 4)
    assert rotation.decide(1.0) == Decision(evict=(0, 4))
    board.shard_gone(0, 4)
    board.shard_gone(4, 4)
    assert sorted(rotation.decide(2.0).load) == [2, 5]
    board.shard_resident(2, 5)
    board.shard_resident(5, 4)
    assert rotation.decide(3.0) == Decision()
    assert sum(board.resident) == 30


def test_what_is_there_whole_is_read_while_the_rest_goes() -> None:
    """All of it was there, and now it has half the room: to evict the other half takes a node its time."""
    board = Board([10] * 6, 30)
    for chunk in range(6):
        board.shard_resident(chunk, 10)
    rotation = Relevance(board, TIMEOUT_S)
    board.session_opened("a", [10] * 6)
    assert rotation.decide(0.0) == Decision(evict=(3, 4, 5))
    assert sorted(rotation.menu("a").hits) == [0, 1, 2]
    board.allocate(20)
    board.session_finished("a")
    assert rotation.decide(1.0) == Decision(evict=(0, 3, 4, 5)), "and no more than that"


@pytest.mark.parametrize("trouble", ["what has to go stays, at a node that hangs", "there is less room", "it is lost"])
def test_what_was_spared_holds_up_nobody(trouble: str) -> None:
    board = Board([10] * 6, 30)
    for chunk in range(6):
        board.shard_resident(chunk, 5)
    rotation = Relevance(board, TIMEOUT_S)
    board.session_opened("a", [10] * 6)
    assert rotation.decide(0.0).evict == (3, 4, 5)
    if trouble == "there is less room":
        board.allocate(20)
        assert rotation.decide(1.0).evict == (2, 3, 4, 5)
    elif trouble == "it is lost":
        for chunk in range(6):
            board.shard_gone(chunk, 5)
        assert rotation.decide(1.0).load
    else:
        assert rotation.decide(TIMEOUT_S - 1).evict == (3, 4, 5)
        assert rotation.decide(TIMEOUT_S).evict == (0, 1, 2, 3, 4, 5), "it is given up"


def test_cyclic_goes_on_after_a_restart_with_what_is_there() -> None:
    board = Board([10] * 4, 20)
    board.shard_resident(0, 10)
    board.shard_resident(1, 3)
    rotation = Cyclic(board, TIMEOUT_S)
    assert rotation.decide(0.0) == Decision()
    board.session_opened("a", [10] * 4)
    decision = rotation.decide(1.0)
    assert (decision.load, decision.evict) == ((1,), ())
    assert set(rotation.menu("a").hits) == {0, 1}, "what is there is read before it goes"


@pytest.mark.parametrize("kind", [Cyclic, Relevance])
@pytest.mark.parametrize("kept_bytes", [10, 4, 1])
def test_what_another_data_set_keeps_holds_up_nobody(kind: type[Cyclic] | type[Relevance], kept_bytes: int) -> None:
    """Of the same content, whole or in part. It is told to go, stays, and takes the room of all that was to come."""
    chunks = 40
    board = Board([10] * chunks, 30)
    for chunk in range(chunks):
        board.shard_resident(chunk, kept_bytes)
    rotation = kind(board, TIMEOUT_S)
    board.session_opened("job", [10] * chunks)
    now, taken = 0.0, 0
    while board.sessions["job"].pending_bytes:
        now += 1.0
        assert now < PAST_THE_CACHE_AFTER_S + 2 * chunks, f"{taken} of {chunks} chunks"
        decision = rotation.decide(now)
        for chunk in decision.evict:
            if board.resident[chunk] > kept_bytes:
                board.shard_gone(chunk, board.resident[chunk] - kept_bytes)
        for chunk in decision.load:
            board.shard_resident(chunk, 10 - board.resident[chunk])
        menu = rotation.menu("job")
        here = [chunk for chunk in menu.hits if board.resident[chunk]]
        for chunk in [*here, *menu.direct][:1]:
            board.use_started("job", chunk)
            board.took("job", chunk, 10)
            board.use_ended("job", chunk)
            taken += 1
    assert taken == chunks


@pytest.mark.parametrize("kind", [Cyclic, Relevance])
def test_a_node_that_hung_once_is_forgotten(kind: type[Cyclic] | type[Relevance]) -> None:
    """A cache that is full is as full as it was then, and a job that reads fast waits a moment for each chunk."""
    chunks, hung_s = 40, (20.0, 50.0)
    board = Board([10] * chunks, 40)
    rotation = kind(board, TIMEOUT_S)
    now, past_the_cache = 0.0, 0
    due_s: dict[tuple[bool, int], float] = {}  # orders are carried out a second after they were given
    for job in range(3):
        board.session_opened(str(job), [10] * chunks)
        while board.sessions[str(job)].pending_bytes:
            now += 0.5
            decision = rotation.decide(now)
            orders = [(False, chunk) for chunk in decision.evict] + [(True, chunk) for chunk in decision.load]
            due_s = {order: due_s.get(order, now + 1.0) for order in orders}
            hangs = hung_s[0] <= now < hung_s[1]
            for loads, chunk in [order for order in orders if due_s[order] <= now and not hangs]:
                if loads:
                    board.shard_resident(chunk, 10 - board.resident[chunk])
                else:
                    board.shard_gone(chunk, board.resident[chunk])
            rotation.decide(now)
            menu = rotation.menu(str(job))
            here = [chunk for chunk in menu.hits if board.resident[chunk]]
            past_the_cache += now >= hung_s[1] + 2.0 and bool(menu.direct) and not (here or menu.misses)
            for chunk in [*here, *menu.misses, *menu.direct][:1]:
                if chunk in menu.misses:
                    board.shard_resident(chunk, 10 - board.resident[chunk])
                board.use_started(str(job), chunk)
                board.took(str(job), chunk, 10)
                board.use_ended(str(job), chunk)
        board.session_finished(str(job))
    assert past_the_cache == 0
