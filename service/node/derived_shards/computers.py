"""Trainers that can compute shards of a derived data set, for as long as they are connected."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator

from tfquiver import errors
from tfquiver.digests.digest import Digest, ShardRef
from tfquiver.proto.tfquiver.v1 import node_pb2 as pb
from tfquiver.service.node.sealed_memory_of_checked_shards.verified import VerifiedShard

MOST_COMPUTERS = 512
ASKED_AT_ONCE = 4  # of one trainer, which has other work
COMPUTE_S = 60.0  # of one trainer, with those before it; then another is asked


class _Answer:
    def __init__(self, length_bytes: int) -> None:
        self.length_bytes = length_bytes
        self.body = bytearray()
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class _Computer:
    def __init__(self, digest_id: bytes) -> None:
        self.digest_id = digest_id
        self.asked: asyncio.Queue[pb.ComputeDerivedRequest] = asyncio.Queue()
        self.answers: dict[int, _Answer] = {}
        self.slots = asyncio.Semaphore(ASKED_AT_ONCE)
        self.waiting = 0
        # One that is stopped, or that was killed and whose forked child keeps the connection open: who asks it waits.
        self.is_silent = False
        self._numbers = itertools.count(1)

    async def ask(self, shard: int, length_bytes: int) -> bytes:
        """Raises UnavailableError: it is gone; and what it says."""
        self.waiting += 1
        number = next(self._numbers)
        try:
            async with self.slots:
                answer = self.answers[number] = _Answer(length_bytes)
                self.asked.put_nowait(pb.ComputeDerivedRequest(request=number, shard=shard))
                await answer.done
                return bytes(answer.body)
        finally:
            self.waiting -= 1
            self.answers.pop(number, None)

    def told(self, message: pb.ComputedDerived) -> None:
        """What nobody waits for any more is let go."""
        self.is_silent = False
        answer = self.answers.get(message.request)
        if answer is None or answer.done.done():
            return
        if len(answer.body) + len(message.part) > answer.length_bytes:
            answer.done.set_exception(errors.StaleDigestError(f"more than its {answer.length_bytes} bytes"))
            return
        answer.body += message.part
        if message.last and message.error_code:
            answer.done.set_exception(errors.from_number(message.error_code, message.error[:1000]))
        elif message.last:
            answer.done.set_result(None)

    def gone(self) -> None:
        for answer in self.answers.values():
            if not answer.done.done():
                answer.done.set_exception(errors.UnavailableError("the trainer that was to compute it is gone"))


class Computers:
    """Lives on one loop."""

    def __init__(self) -> None:
        self._known: dict[bytes, list[_Computer]] = {}

    async def serve(self, messages: AsyncIterator[pb.ComputedDerived]) -> AsyncIterator[pb.ComputeDerivedRequest]:
        """One trainer's call: what it is asked, while it is there.

        Raises InvalidArgumentError, ResourceExhaustedError: there are too many.
        """
        first = await anext(messages, None)
        if first is None or len(first.digest_id) != 32:
            raise errors.InvalidArgumentError("digest_id: missing, or not of 32 bytes")
        if sum(map(len, self._known.values())) >= MOST_COMPUTERS:
            raise errors.ResourceExhaustedError(f"{MOST_COMPUTERS} trainers compute for this node already")
        computer = _Computer(first.digest_id)
        self._known.setdefault(computer.digest_id, []).append(computer)
        hearing = asyncio.get_running_loop().create_task(_heard(computer, messages))
        try:
            while True:
                asking = asyncio.ensure_future(computer.asked.get())
                try:
                    await asyncio.wait([asking, hearing], return_when=asyncio.FIRST_COMPLETED)
                finally:
                    if not asking.done():
                        asking.cancel()
                if hearing.done():
                    return
                yield asking.result()
        finally:
            hearing.cancel()
            others = self._known[computer.digest_id]
            others.remove(computer)
            if not others:
                del self._known[computer.digest_id]
            computer.gone()

    async def compute(self, digest: Digest, ref: ShardRef) -> VerifiedShard:
        """Asks those who can, one after the other.

        Raises:
          NobodyComputesError: nobody is there who can.
          UnavailableError: all of them failed.
          StaleDigestError: what they make of it is something else by now.
        """
        where = f"{ref.file.uri} at {ref.offset}"
        tried: set[int] = set()
        trouble: errors.TfquiverError | None = None
        while (computer := self._next(digest.digest_id, tried)) is not None:
            tried.add(id(computer))
            try:
                async with asyncio.timeout(COMPUTE_S):
                    body = await computer.ask(ref.index, ref.length_bytes)
                shard = await asyncio.to_thread(VerifiedShard.check, ref.hash, body, where)
            except errors.DataLossError as error:
                trouble = errors.StaleDigestError(
                    f"{error}: the function makes something else of the same records than when data set {digest.name} "
                    "was made of it; give tfquiver.materialize another version="
                )
            except errors.TfquiverError as error:
                trouble = error
            except TimeoutError:
                computer.is_silent = True
                trouble = errors.UnavailableError(f"{where}: a trainer did not compute it within {COMPUTE_S:g} s")
            else:
                return shard
        if isinstance(trouble, errors.StaleDigestError):
            raise trouble
        if trouble is None and self._known.get(digest.digest_id):
            trouble = errors.UnavailableError("those who could have not answered for a minute")
        kind = errors.UnavailableError if trouble else errors.NobodyComputesError
        raise kind(
            f"{where}: nobody has it, and to compute it again takes a process that has data set {digest.name} from "
            "tfquiver.materialize; on this machine " + (str(trouble) if trouble else "there is none")
        )

    def _next(self, digest_id: bytes, tried: set[int]) -> _Computer | None:
        known = self._known.get(digest_id, ())
        left = [one for one in known if id(one) not in tried and not one.is_silent]
        return min(left, key=lambda one: one.waiting, default=None)


async def _heard(computer: _Computer, messages: AsyncIterator[pb.ComputedDerived]) -> None:
    async for message in messages:
        computer.told(message)
