"""Sampled data sets: what a key's scheme is, and its epochs drawn beside the loop, in bounded time."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import threading
import weakref
from collections.abc import Callable
from contextlib import AsyncExitStack

from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.messages_and_binary_formats.drawn_shards import DrawnShards, drawn_shards
from tfquiver.messages_and_binary_formats.record_weights import RecordWeights
from tfquiver.plain_text import plain
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb2
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.proto.tfquiver.v1.commit_log_pb2 import CommitRecord, SamplingAsked
from tfquiver.service.coordinator.commit_log.commit_log import CommitLog
from tfquiver.service.coordinator.registering_sharing_removing_datasets.registry import Registry
from tfquiver.service.coordinator.sampled_sessions_and_uploaded_weights.asked import AskedSamplings, arguments_of
from tfquiver.service.coordinator.sampled_sessions_and_uploaded_weights.weight_files import WeightFiles
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs import registry as schemes
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.drawing import drawn
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.interface import Population
from tfquiver.service.coordinator.sessions.session import Session
from tfquiver.service.coordinator.sessions.sessions import Sessions
from tfquiver.service.coordinator.sessions.which_session_a_reader_joins.admission import Drawn, Epoch

DRAW_S = 8.0  # the call that waits for it has 10
AWAITED_S = 600.0  # between a data set's making and its first epoch: a model is made meanwhile
_KEPT = 8  # epochs that others may ask for at once: of a sweep, or again after a reply that was lost
_Made = tuple[DrawnShards, types_pb2.DrawnShards]
_Key = tuple[str, str, bytes, bytes, int, int]  # scheme, arguments, data set, weights, seed, epoch


class Samplings:
    """Lives on the coordinator's loop."""

    def __init__(
        self,
        log: CommitLog,
        registry: Registry,
        sessions: Sessions,
        journal: Callable[[CommitRecord], None],
        weights: WeightFiles,
    ) -> None:
        self.asked = AskedSamplings(journal)
        self._weights = weights
        self._log, self._registry, self._sessions = log, registry, sessions
        self._made: dict[_Key, _Made] = {}  # oldest first
        self._stuck: set[str] = set()  # schemes of which a thread draws that cannot be ended
        self._asked_s: dict[str, float] = {}  # by session key; those asked last come last
        self._decoding: dict[str, asyncio.Task[DrawnShards]] = {}  # by session id
        # Those that sessions have now, by what they are made of: a sweep's are alike, and take four bytes a draw.
        self._decoded: weakref.WeakValueDictionary[bytes, DrawnShards] = weakref.WeakValueDictionary()
        self._one_decodes = asyncio.Lock()  # each takes memory
        self._one_at_a_time = asyncio.Lock()
        self._drawing: asyncio.Task[_Made] | None = None  # whose turn it is

    async def ask(self, request: pb2.AskSamplingRequest) -> DrawnShards:
        """Returns the first epoch, which is drawn to see that the scheme can. Errors as of the call."""
        await self._log.writable()
        asked = SamplingAsked(
            session_key=request.session_key, digest_id=request.digest_id, scheme=request.scheme,
            arguments=request.arguments, weights_id=request.weights_id,
        )  # fmt: skip
        if not request.seed:
            raise errors.InvalidArgumentError("seed: a sampled data set needs one")
        self._registry.find(request.digest_id)
        first, _ = await self._draw(asked, Epoch(0, request.seed))
        self._asked_s[asked.session_key] = asyncio.get_running_loop().time()
        self.asked.ask(asked)
        await self._log.synced()
        return first

    def awaited_weights(self) -> set[bytes]:
        """Of keys that were asked for of late: whoever did so is about to read. Of those of an earlier process only
        the last use of their weights is known."""
        now_s, weights = asyncio.get_running_loop().time(), self.asked.weights()
        self._asked_s = {key: at_s for key, at_s in self._asked_s.items() if key in weights}
        asked_s = ((one, self._asked_s.get(key, self._weights.used_s(one))) for key, one in weights.items())
        return {one for one, at_s in asked_s if now_s - at_s < AWAITED_S}

    async def draws_of(self, session: Session) -> DrawnShards:
        """Of one that is sampled. Of millions of draws the loop is not held up: they are decoded beside it, once for
        all who ask; of one that has settled they are not kept. Raises ProtocolError."""
        shards = self._registry.find(session.digest_id).shards
        if session.draws_known:
            return session.draws_of(shards)
        session_id = session.session_id
        decoding = self._decoding.get(session_id)
        if decoding is None:
            decoding = self._decoding[session_id] = asyncio.create_task(self._decode(session, shards))
            decoding.add_done_callback(lambda _: self._decoding.pop(session_id))
        return await asyncio.shield(decoding)

    async def _decode(self, session: Session, shards: int) -> DrawnShards:
        async with self._one_decodes:
            key = await asyncio.to_thread(_key_of, session.drawn, shards)
            drawn = self._decoded.get(key)
            if drawn is None:
                drawn = self._decoded[key] = await asyncio.to_thread(drawn_shards, session.drawn, shards)
        session.know_draws(drawn)
        return drawn

    async def drawn(self, request: pb2.TicketRequest | pb2.OpenReaderRequest) -> Drawn | None:
        """What the session is to read that this request makes, if it makes one; None: each record once, or what another
        session has not been delivered. Raises InvalidArgumentError, DeadlineError."""
        asked = self.asked.find(request.session_key, request.digest_id)
        if asked is None or not self._makes_one(request):
            return None
        seed, order_seed = request.seed, request.order.order_seed
        epoch = self._sessions.admission.to_draw(
            request.session_key, request.digest_id, request.job, seed, order_seed
        )  # fmt: skip
        if epoch is None:
            return None
        _, message = await self._draw(asked, epoch)
        return Drawn(epoch.epoch, message)

    def _makes_one(self, request: pb2.TicketRequest | pb2.OpenReaderRequest) -> bool:
        admission = self._sessions.admission
        if isinstance(request, pb2.OpenReaderRequest):
            return not admission.has_own(request.reader_id)
        return not request.late and not admission.has_ticket(
            request.session_key, request.provider_id, request.repetition
        )

    async def _draw(self, asked: SamplingAsked, epoch: Epoch) -> _Made:
        key = asked.scheme, asked.arguments, asked.digest_id, asked.weights_id, epoch.seed, epoch.epoch
        # Of threads that are in the interpreter together the loop has to wait for each.
        async with AsyncExitStack() as turn:
            await turn.enter_async_context(self._one_at_a_time)
            # Before what is remembered: where they are gone, the client is to send them again.
            weights = await self._weights.get(asked.weights_id) if asked.weights_id else None
            if key in self._made:
                return self._made[key]
            if asked.scheme in self._stuck:
                raise _endless(asked.scheme)
            digest = await self._registry.digest(asked.digest_id)
            if weights and weights.content_root != digest.content_root:
                raise errors.InvalidArgumentError("weights_id: weights of other data than this data set has")
            draw = functools.partial(_drawn, asked, digest, weights, epoch)
            drawing = asyncio.get_running_loop().create_task(self._in_turn(turn.pop_all(), key, draw))
        self._drawing = drawing
        drawing.add_done_callback(lambda done: done.cancelled() or done.exception())  # maybe nobody is there for it
        return await asyncio.shield(drawing)

    async def _in_turn(self, turn: AsyncExitStack, key: _Key, draw: Callable[[], _Made]) -> _Made:
        """Also when whoever asked has left: the thread would still be there, and beside the next one's."""
        async with turn:
            return await self._in_time(key, draw)

    async def _in_time(self, key: _Key, draw: Callable[[], _Made]) -> _Made:
        """What others wrote may never end: then it must not hold up the end of the process, nor take a thread that
        others need. What comes too late is there for who asks again."""
        loop, done = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()
        scheme = key[0]

        def told(made: _Made | None, error: Exception | None) -> None:
            self._stuck.discard(scheme)
            if made:
                self._made[key] = made
                while len(self._made) > _KEPT:
                    del self._made[next(iter(self._made))]
            if done.cancelled():
                return
            done.set_exception(error) if error else done.set_result(made)

        def run() -> None:
            made: _Made | None = None
            failed: Exception | None = None
            try:
                made = draw()
            except errors.TfquiverError as error:
                failed = error
            # Any may come out of what others wrote, also of what it gave when that is looked at; some of them would end
            # the loop, or seem to be whoever waits, or cannot be told to a future.
            except BaseException as error:  # noqa: BLE001 - whoever waits hears of it
                said = f"sampling scheme {scheme}: {type(error).__name__}: {plain(error)}"
                failed = errors.InvalidArgumentError(said)
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile: nobody waits
                loop.call_soon_threadsafe(told, made, failed)

        threading.Thread(target=run, name=f"sampling {scheme}", daemon=True).start()
        try:
            async with asyncio.timeout(DRAW_S):
                made: _Made = await done
        except TimeoutError:
            self._stuck.add(scheme)
            raise _endless(scheme) from None
        return made


def _key_of(message: types_pb2.DrawnShards, shards: int) -> bytes:
    return hashlib.sha256(message.SerializeToString(deterministic=True) + shards.to_bytes(8, "little")).digest()


def _drawn(asked: SamplingAsked, digest: Digest, weights: RecordWeights | None, epoch: Epoch) -> _Made:
    scheme = schemes.make(asked.scheme, arguments_of(asked.arguments))
    population = Population(
        digest.records, digest.lengths, digest.file_index, [entry.uri for entry in digest.files], weights
    )  # fmt: skip
    if not population.all_records:
        raise errors.InvalidArgumentError(f"sampling scheme {asked.scheme}: the data set has no records")
    made = drawn(asked.scheme, scheme, population, epoch.seed, epoch.epoch)
    return made, made.message()


def _endless(scheme: str) -> errors.DeadlineError:
    return errors.DeadlineError(
        f"sampling scheme {scheme}: an epoch was not drawn in {DRAW_S:g} s; it is not asked again before that comes "
        "to an end, or the coordinator is started again"
    )
