"""Both lines give what sorting all that wait would give."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from tfquiver.service.coordinator.job_schedulers.interface import Capacity
from tfquiver.service.coordinator.job_schedulers.sjf import ShortestJobFirst
from tfquiver.service.sim.job_queue_rates_store_bandwidth.jobs import Jobs, Queue
from tfquiver.service.sim.job_queue_rates_store_bandwidth.lines import ByKey, BySubmission
from tfquiver.service.sim.workloads_and_recordings.workload import SimJob, Workload


@dataclass
class Submitted:
    submit_s: npt.NDArray[np.float64]
    names: npt.NDArray[np.str_]


def jobs_of(count: int, draw: st.DataObject) -> Submitted:
    submit_s = draw.draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    names = draw.draw(st.permutations([f"job {number}" for number in range(count)]))
    return Submitted(np.array(submit_s, np.float64), np.array(names, np.str_))


@given(st.integers(1, 12), st.data())
def test_by_submission(count: int, data: st.DataObject) -> None:
    jobs, waiting = jobs_of(count, data), set[int]()
    line = BySubmission(jobs)
    for _ in range(8):
        some = data.draw(st.sets(st.integers(0, count - 1)))
        comes = data.draw(st.booleans())
        (line.add if comes else line.remove)(np.array(sorted(some), np.int64))
        waiting = waiting | some if comes else waiting - some
        expected = sorted(waiting, key=lambda number: (jobs.submit_s[number], jobs.names[number]))
        assert line.all().tolist() == expected
        assert line.first(3).tolist() == expected[:3]
        assert len(line) == len(waiting)


@given(st.integers(1, 12), st.data())
def test_by_key(count: int, data: st.DataObject) -> None:
    jobs, waiting = jobs_of(count, data), list[tuple[float, float, str, int]]()
    line = ByKey(jobs)
    for number in data.draw(st.permutations(range(count))):
        key = float(data.draw(st.integers(0, 2)))
        line.add(number, key)
        waiting.append((key, float(jobs.submit_s[number]), str(jobs.names[number]), number))
        if data.draw(st.booleans()):
            begun = line.first(2)
            line.remove(begun)
            gone = sorted(waiting)[:2]
            assert begun.tolist() == [entry[3] for entry in gone]
            waiting = [entry for entry in waiting if entry not in gone]
    assert line.first(count).tolist() == [entry[3] for entry in sorted(waiting)]
    assert len(line) == len(waiting)


def test_who_did_not_fit_begins_when_another_has_ended_or_a_shorter_one_comes() -> None:
    shapes = (("long", 9.0, 2), ("wide", 5.0, 3), ("short", 1.0, 1))
    jobs = Jobs(Workload({"a": 10**6}, tuple(SimJob(name, "a", 1.0, 1e6 * size, n) for name, size, n in shapes)))
    queue = Queue(jobs, ShortestJobFirst(joint=False), Capacity(3, 0.0, 1.0))
    queue.submit(0, 0.0)
    assert queue.fill()
    queue.submit(1, 0.0)
    assert not queue.fill()
    assert not queue.fill()
    queue.submit(2, 0.0)
    assert queue.fill()
    assert jobs.running.tolist() == [0, 2]
    jobs.running = jobs.running[:0]
    assert queue.fill()
    assert jobs.running.tolist() == [1]
    assert jobs.of_running.total.tolist() == [5e6]
