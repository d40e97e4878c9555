"""Which process gets which file of tests: pytest-xdist's `loadfile`, which also goes on when one ends in a test."""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController


class ByFile(LoadFileScheduling):
    """xdist's own hands the test that ended a process to the next one, again and again. Once the others are about to
    leave it stands still for ever: the new process is given one file, the first, and that has been read to its end.
    """

    def remove_node(self, node: WorkerController) -> str | None:
        """Returns the test that it ended in: it counts as done."""
        files = self.assigned_work.pop(node)
        ended_in = next((test for tests in files.values() for test, done in tests.items() if not done), None)
        if ended_in is None:
            return None
        for tests in files.values():
            if ended_in in tests:
                tests[ended_in] = True
        self.workqueue.update({file: tests for file, tests in files.items() if not all(tests.values())})
        for other in self.assigned_work:
            if other in self.registered_collections:  # else it has yet to say which tests there are
                self._reschedule(other)
        return ended_in

    def schedule(self) -> None:
        super().schedule()
        super().schedule()  # a process begins a test when it knows the next: one file of one test is not enough
