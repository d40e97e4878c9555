"""Derived data sets on the loop: builds opened and claimed from, rows reported, the whole registered."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator, Callable, Set

import numpy as np
import numpy.typing as npt
from absl import logging

from tfquiver import errors
from tfquiver.clock import Clock
from tfquiver.digests.digest import Digest
from tfquiver.log_files_and_lines.logs import about
from tfquiver.proto.tfquiver.v1 import derived_datasets_pb2 as pb2
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.proto.tfquiver.v1.commit_log_pb2 import CommitRecord
from tfquiver.roles_and_tokens.identity import EVERYBODY, Identity
from tfquiver.service.coordinator.commit_log.commit_log import CommitLog
from tfquiver.service.coordinator.derived_datasets import build as builds
from tfquiver.service.coordinator.derived_datasets import costs
from tfquiver.service.coordinator.derived_datasets.build import Build
from tfquiver.service.coordinator.derived_datasets.made_rows import StillRows
from tfquiver.service.coordinator.derived_datasets.recipes import IDLE_S, Recipe, Recipes, recipe_id
from tfquiver.service.coordinator.registering_sharing_removing_datasets.catalogue import Catalogue
from tfquiver.service.coordinator.registering_sharing_removing_datasets.registry import Registry

_PART_BYTES = 1 << 20
UNREAD_S = 3600.0  # so long sessions are remembered; and who was given a draw has begun to read it by then


class Deriving:
    """Lives on the coordinator's loop."""

    def __init__(
        self,
        clock: Clock,
        log: CommitLog,
        registry: Registry,
        catalogue: Catalogue,
        journal: Callable[[CommitRecord], None],
        read: Callable[[], Set[bytes]],
        up_ms: Callable[[], int],
    ) -> None:
        """`read`: the digest ids of all sessions that are known, also of those that nobody reads at this moment.
        `up_ms`: now, as in the log."""
        self.recipes = Recipes(journal)
        self._read, self._up_ms = read, up_ms
        self._clock, self._log, self._registry, self._catalogue = clock, log, registry, catalogue
        self._opening = asyncio.Lock()
        self._changed: dict[bytes, asyncio.Event] = {}  # by build; those that somebody waits for
        self._records: weakref.WeakKeyDictionary[Build, npt.NDArray[np.uint32]] = weakref.WeakKeyDictionary()
        self._registering: dict[bytes, asyncio.Lock] = {}
        self._stopped = False

    async def open(self, who: Identity, source: types_pb2.Dataset, request: pb2.OpenDerivedRequest) -> pb2.DerivedState:
        """`source`: what the caller may read. Errors as of the call."""
        key, registry = recipe_id(who.owner, source.content_root, request.fingerprint), self._registry
        async with self._opening:
            await self._log.writable()
            known = self.recipes.get(key)
            if known is None:
                known = self._begun(key, who, source, request, 0)
            elif self._is_used_up(known, request):
                known = self._begun(key, who, source, request, known.draw + 1)
            elif (known.digest_id or known.source_id) not in registry:  # removed
                known = self._begun(key, who, source, request, known.draw)
            if request.uses_per_draw:
                self.recipes.use(known, request.use_id)
            await self._drop_old(known)
        await self._log.synced()  # of a thousand that come at once together: one after the other they took seconds
        return await self._state(known, who)

    async def claim(self, who: Identity, request: pb2.ClaimDerivedRequest) -> pb2.DerivedState:
        """Waits for a row, or for the end, if asked to."""
        give_up_s = self._clock.now() + request.wait_ms / 1000
        while True:
            recipe = self.recipes.of_build(request.build_id, who.owner)
            build = await self._build(recipe)
            claimed: list[int] = []
            now_s = recipe.touched_s = self._clock.now()
            if build is not None:
                build.claims.renew(request.claimer, request.computing, now_s)
                build.claims.give_back(request.claimer, request.given_back)
                if request.given_back:
                    self._wake(recipe)
                claimed = build.claimed(request.claimer, request.most, now_s)
            state = await self._state(recipe, who)
            state.claimed.extend(claimed)
            left_s = give_up_s - now_s
            if claimed or state.HasField("dataset") or not request.most or left_s <= 0 or self._stopped:
                return state
            ends_s = build.claims.next_s() if build is not None else None
            await self._change(recipe, left_s if ends_s is None else min(left_s, max(ends_s - now_s, 0.01)))

    async def report(self, who: Identity, request: pb2.ReportDerivedRequest) -> pb2.DerivedState:
        await self._log.writable()
        recipe = self.recipes.of_build(request.build_id, who.owner)
        recipe.touched_s = self._clock.now()
        if (build := await self._build(recipe)) is not None:
            records = self._records[build]
            for row in request.rows:
                builds.check(row, records)
            cost = request.cost if request.HasField("cost") else None
            if cost is not None:
                costs.check(cost, len(request.rows))
            self.recipes.report(recipe, list(request.rows), cost)
        await self._log.synced()
        return await self._state(recipe, who)

    def restored(self) -> None:
        """The log has been read: who computes has had no time yet to say so."""
        for recipe in self.recipes.builds():
            recipe.touched_s = self._clock.now()

    def is_building(self) -> bool:
        """Whether somebody has been at a build of late."""
        now_s = self._clock.now()
        return any(now_s - recipe.touched_s < IDLE_S for recipe in self.recipes.builds())

    def release_waiters(self) -> None:
        self._stopped = True
        for event in self._changed.values():
            event.set()

    def _is_used_up(self, known: Recipe, request: pb2.OpenDerivedRequest) -> bool:
        enough = request.uses_per_draw and known.uses >= request.uses_per_draw
        return bool(enough and known.digest_id and not self.recipes.counted(request.use_id))

    def _begun(
        self, key: bytes, who: Identity, source: types_pb2.Dataset, request: pb2.OpenDerivedRequest, draw: int
    ) -> Recipe:
        return self.recipes.begin(
            key, source.digest_id, request.name, who.owner, source.shards, draw, self._clock.now(),
            self._registry.__contains__, self._up_ms(),
        )  # fmt: skip

    async def _build(self, recipe: Recipe) -> Build | None:
        """None: it is made."""
        if recipe.digest_id:
            return None
        if recipe.build is None or recipe.build not in self._records:
            digest = await self._registry.digest(recipe.source_id)
            if recipe.digest_id:  # meanwhile
                return None
            self._records[self.recipes.sized(recipe, digest.num_shards)] = digest.records
        return recipe.build

    async def _state(self, recipe: Recipe, who: Identity) -> pb2.DerivedState:
        if not recipe.digest_id:
            build = await self._build(recipe)
            if build is not None and not build.is_whole:
                return pb2.DerivedState(
                    build_id=recipe.build_id, rows=build.rows or 0, done=build.done, draw=recipe.draw
                )
            await self._registered(recipe, who)
        made = self._registry.find(recipe.digest_id)
        rows = self._registry.find(recipe.source_id).shards if recipe.source_id in self._registry else 0
        return pb2.DerivedState(build_id=recipe.build_id, dataset=made, rows=rows, done=rows, draw=recipe.draw)

    async def _registered(self, recipe: Recipe, who: Identity) -> None:
        """The whole becomes a data set of who asks first; the others wait for that."""
        lock = self._registering.setdefault(recipe.build_id, asyncio.Lock())
        async with lock:
            build = recipe.build
            if recipe.digest_id or build is None:
                return
            source, made = await self._registry.digest(recipe.source_id), build.made()
            data = await asyncio.to_thread(_encoded, source, made, recipe.name, recipe.build_id)
            dataset = await self._catalogue.register(recipe.name, b"", None, _parts(data), who)
            if self.recipes.get(recipe.recipe) is recipe and not recipe.digest_id:
                self.recipes.made(recipe, dataset.digest_id)
                await self._log.synced()
                logging.info(
                    "derived data set %s is whole: %d bytes",
                    recipe.name,
                    dataset.size_bytes,
                    extra=about(dataset=recipe.name, digest=dataset.digest_id),
                )
                await self._drop_old(recipe)
        self._registering.pop(recipe.build_id, None)
        self._wake(recipe)

    async def _drop_old(self, recipe: Recipe) -> None:
        """Draws before this one, when nobody has read them for long: a job reads nothing while it builds its model, and
        between epochs."""
        if not recipe.digest_id or not recipe.old_since_ms:
            return
        up_ms, read, left = self._up_ms(), self._read(), []
        for digest_id, since_ms in list(recipe.old_since_ms.items()):
            old_ms = up_ms - (since_ms or up_ms)
            if digest_id in self._registry and (digest_id in read or old_ms < 1000 * UNREAD_S):
                left.append(digest_id)
                continue
            try:
                if digest_id in self._registry:
                    await self._catalogue.delete(EVERYBODY, digest_id, force=False)
            except errors.InUseError:
                left.append(digest_id)
            except errors.NotFoundError:
                pass  # removed meanwhile
        self.recipes.let_go(recipe, left, up_ms)

    def _wake(self, recipe: Recipe) -> None:
        if event := self._changed.pop(recipe.build_id, None):
            event.set()

    async def _change(self, recipe: Recipe, within_s: float) -> None:
        event = self._changed.setdefault(recipe.build_id, asyncio.Event())
        try:
            async with asyncio.timeout(within_s):
                await event.wait()
        except TimeoutError:
            pass


def _encoded(source: Digest, made: StillRows, name: str, build_id: bytes) -> bytes:
    return builds.digest_of(source, made, name, build_id).to_bytes()


async def _parts(data: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(data), _PART_BYTES):
        yield data[at : at + _PART_BYTES]
        await asyncio.sleep(0)  # of millions of rows there are hundreds, and others are served between them
