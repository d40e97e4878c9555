"""What this node does for data sets that have names: the newest orders say what, the coordinator is told how far.

Level-triggered, as all orders are: a task that is ordered is under way or over; one that is ordered no more is given
up. How it ended is told with every set of orders in which it still stands: the coordinator may have been restarted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from absl import logging

from tfquiver import errors
from tfquiver.log_files_and_lines.logs import telling
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb

PROGRESS_S = 0.5
_TELL_AGAIN_S = 1.0

Report = Callable[[int, int, str], None]  # bytes done, bytes in all, what is in the way
Work = Callable[[pb.DatasetTask, Report], Awaitable[pb.ReportTaskRequest]]  # how it ended; raises TfquiverError


class DatasetTasks:
    """Lives on one loop. `close` it.

    Args:
      work: does a task, telling how far it is.
      tell: tells the coordinator; whether the task is still wanted. Raises TfquiverError.
    """

    def __init__(self, node_id: str, work: Work, tell: Callable[[pb.ReportTaskRequest], Awaitable[bool]]) -> None:
        self._node_id, self._work, self._tell = node_id, work, tell
        self._running: dict[str, _Running] = {}

    @property
    def busy(self) -> bool:
        return any(not one.told_end for one in self._running.values())

    def receive(self, tasks: Sequence[pb.DatasetTask]) -> None:
        """The newest orders."""
        own = {task.task_id: task for task in tasks if self._is_own(task)}
        for task_id in self._running.keys() - own.keys():
            self._running.pop(task_id).cancel()
        for task_id, task in own.items():
            if task_id in self._running:
                self._running[task_id].tell_again()
            else:
                self._running[task_id] = _Running(task, self._work, self._tell)

    def has(self, task: pb.DatasetTask) -> bool:
        """It is under way, or over."""
        return task.task_id in self._running

    async def close(self) -> None:
        running = list(self._running.values())
        self._running.clear()
        for one in running:
            one.cancel()
        await asyncio.gather(*(one.ended() for one in running))

    def _is_own(self, task: pb.DatasetTask) -> bool:
        return bool(task.WhichOneof("work")) and (not task.HasField("scan") or task.scan.node_id == self._node_id)


class _Running:
    def __init__(
        self, task: pb.DatasetTask, work: Work, tell: Callable[[pb.ReportTaskRequest], Awaitable[bool]]
    ) -> None:
        self._task, self._work, self._tell = task, work, tell
        self._last = pb.ReportTaskRequest(task_id=task.task_id)
        self._news = asyncio.Event()
        self._news.set()  # that it has begun
        self.told_end = False
        loop = asyncio.get_running_loop()
        with telling(dataset=task.scan.name, digest=task.warm.digest_id, alone=True):
            self._tasks = [loop.create_task(self._do()), loop.create_task(self._tell_on())]

    def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def ended(self) -> None:
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def tell_again(self) -> None:
        self.told_end = False
        self._news.set()

    async def _do(self) -> None:
        try:
            self._last = await self._work(self._task, self._report)
        except asyncio.CancelledError:
            own = asyncio.current_task()
            if own is None or own.cancelling():
                raise
            error = errors.CancelledError_("what it waited for here was given up by others: it is to be asked for anew")
            self._last = pb.ReportTaskRequest(error_code=errors.code_number(error), trouble=str(error))
        except errors.TfquiverError as error:
            self._last = pb.ReportTaskRequest(error_code=errors.code_number(error), trouble=str(error))
        except Exception as error:  # noqa: BLE001 - whatever it was: whoever asked for it would wait for ever
            logging.exception("task %s", self._task.task_id)
            self._last = pb.ReportTaskRequest(
                error_code=errors.code_number(errors.TfquiverError()), trouble=f"{type(error).__name__}: {error}"
            )
        self._last.task_id, self._last.over = self._task.task_id, True
        self._news.set()

    def _report(self, done_bytes: int, total_bytes: int, trouble: str) -> None:
        if not self._last.over:
            self._last = pb.ReportTaskRequest(
                task_id=self._task.task_id, done_bytes=done_bytes, total_bytes=total_bytes, trouble=trouble
            )
            self._news.set()

    async def _tell_on(self) -> None:
        """The last news, now and then; the end at once."""
        while True:
            await self._news.wait()
            self._news.clear()
            told = self._last
            try:
                await self._tell(told)
                self.told_end = told.over
                if told.over:
                    continue
                pause_s = PROGRESS_S
            except errors.TfquiverError as error:
                every_n_seconds(logging.WARNING, "task %s: %s", 10, self._task.task_id, error)
                self._news.set()
                pause_s = _TELL_AGAIN_S
            work = self._tasks[0]
            if not work.done():
                await asyncio.wait([work], timeout=pause_s)
            elif not self.told_end:
                await asyncio.sleep(pause_s)
