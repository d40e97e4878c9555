"""Who scans which file: any order of handing out, coming back, failing and losing workers."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tfquiver.digests.file_entry import FileEntry
from tfquiver.service.node.dataset_scans.file_pool import FilePool

HOST, OTHERS = "host", ["b", "c"]
WORKERS = [HOST, *OTHERS, "late"]


def files_of(sizes: list[int], generation: str = "1") -> list[FileEntry]:
    return [FileEntry(f"gs://b/{number}", size, generation) for number, size in enumerate(sizes)]


class Scans(RuleBasedStateMachine):
    @initialize(
        sizes=st.lists(st.integers(0, 50), max_size=30),
        known=st.sets(st.integers(0, 29)),
        old=st.sets(st.integers(0, 29)),
    )
    def begin(self, sizes: list[int], known: set[int], old: set[int]) -> None:
        self.files = [
            FileEntry(one.uri, one.size_bytes, "" if number in old else one.generation)
            for number, one in enumerate(files_of(sizes))
        ]
        self.wanted = {number for number in range(len(sizes)) if number not in known}
        self.pool = FilePool(self.files, sorted(self.wanted), HOST, OTHERS)
        self.done: set[int] = set()
        self.hands: dict[str, set[int]] = {worker: set() for worker in WORKERS}
        self.failed: set[int] = set()

    @rule(worker=st.sampled_from(WORKERS), most_bytes=st.integers(1, 100), most_files=st.integers(1, 5))
    def take(self, worker: str, most_bytes: int, most_files: int) -> None:
        taken = self.pool.take(worker, most_bytes, most_files)
        assert len(taken) <= most_files
        assert len(taken) <= 1 or sum(self.files[one].size_bytes for one in taken) <= most_bytes
        held = set().union(*self.hands.values())
        assert len(set(taken)) == len(taken) and not set(taken) & (held | self.done), "nobody else has it"
        assert set(taken) <= self.wanted
        if worker != HOST:
            assert not set(taken) & self.failed, "what another could not do is the host's"
            assert all(self.files[one].generation for one in taken)
        free = self.wanted - held - self.done
        if worker == HOST:
            assert taken or not free, "nothing waits for others"
        self.hands[worker] |= set(taken)

    @rule(worker=st.sampled_from(WORKERS), data=st.data())
    def finish(self, worker: str, data: st.DataObject) -> None:
        if self.hands[worker]:
            number = data.draw(st.sampled_from(sorted(self.hands[worker])))
            self.pool.done(number)
            self.hands[worker].remove(number)
            self.done.add(number)

    @rule(worker=st.sampled_from(WORKERS[1:]), refused=st.booleans(), data=st.data())
    def lose(self, worker: str, refused: bool, data: st.DataObject) -> None:
        """What it was asked for comes back, also named with files of others, or twice."""
        stray = data.draw(st.lists(st.sampled_from(sorted(self.wanted)), max_size=4)) if self.wanted else []
        self.pool.back(worker, [*self.hands[worker], *stray], to_host=refused)
        if refused:
            self.failed |= self.hands[worker]
        self.hands[worker] = set()

    @invariant()
    def counts(self) -> None:
        others = set().union(*(self.hands[worker] for worker in WORKERS[1:]))
        assert self.pool.in_hands_bytes() == sum(self.files[one].size_bytes for one in others)
        assert self.pool.over == (self.done == self.wanted)

    def teardown(self) -> None:
        """Whoever is lost: the host alone ends it."""
        if not hasattr(self, "pool"):
            return
        for worker in WORKERS[1:]:
            self.pool.back(worker, self.hands[worker])
        for number in self.hands[HOST]:
            self.pool.done(number)
        while some := self.pool.take(HOST, 1, 1):
            self.pool.done(some[0])
        assert self.pool.over


TestScans = Scans.TestCase


def test_a_node_has_the_same_files_when_another_begins_the_scan_again() -> None:
    files = files_of([1] * 300)

    def of(worker: str, pool: FilePool) -> set[int]:
        return set(pool.take(worker, 100, 100)[:90])

    before = of("c", FilePool(files, range(300), "a", ["b", "c"]))
    after = set(FilePool(files, range(300), "b", ["c"]).take("c", 1000, 1000))
    assert len(before) > 60 and before <= after


def test_who_has_none_left_takes_of_whoever_has_most() -> None:
    files = files_of([1] * 100)
    pool = FilePool(files, range(100), HOST, OTHERS)
    taken = 0
    while some := pool.take("b", 3, 3):
        taken += len(some)
    assert taken == 100 and pool.in_hands_bytes() == 100
