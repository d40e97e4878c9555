"""Which recipes there are, what each has come to, how often it was used; journaled as it is decided. Pure.

A recipe is a domain (the name of a token), the content that it is applied to, and a function's fingerprint. What one
name has computed no other finds: that bytes are what a function makes of others only who computed them can tell.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tfquiver import errors
from tfquiver.proto.tfquiver.v1.commit_log_pb2 import (
    CommitRecord,
    DerivedBegun,
    DerivedForgotten,
    DerivedMade,
    DerivedRows,
    DerivedUsed,
    OldSince,
)
from tfquiver.proto.tfquiver.v1.derived_datasets_pb2 import DerivedCost, DerivedRow
from tfquiver.service.coordinator.derived_datasets import costs
from tfquiver.service.coordinator.derived_datasets.build import MOST_ROWS, Build

MOST_RECIPES = 10_000
MOST_BUILDS = 64
MOST_BUILDS_OF_ONE = 16
MOST_PARTS = 16 << 20  # of all builds together
_MOST_USE_IDS = 4096
IDLE_S = 3600.0  # a build that nobody has been at for so long makes room for others
_ROWS_A_RECORD = 1024

Journal = Callable[[CommitRecord], None]


def recipe_id(domain: str, content_root: bytes, fingerprint: bytes) -> bytes:
    return hashlib.sha256(b"tfquiver recipe\0" + content_root + fingerprint + domain.encode()).digest()


def build_id(recipe: bytes, draw: int) -> bytes:
    return hashlib.sha256(b"tfquiver build\0" + recipe + draw.to_bytes(8, "little")).digest()


@dataclass(slots=True)
class Recipe:
    """`build`: None: it is made, and `digest_id` names what it has become."""

    recipe: bytes
    source_id: bytes
    name: str
    domain: str
    draw: int = 0
    uses: int = 0  # of this draw
    build: Build | None = None
    digest_id: bytes = b""
    old_since_ms: dict[bytes, int] = field(default_factory=dict)  # by digest id of draws before; 0: not known
    touched_s: float = 0.0
    cost: DerivedCost = field(default_factory=DerivedCost)

    @property
    def build_id(self) -> bytes:
        return build_id(self.recipe, self.draw)


class Recipes:
    """`journal`: is given each decision; the caller makes it durable."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._recipes: dict[bytes, Recipe] = {}  # the one begun or made last comes last
        # Those of them that are not whole: a few, where there may be thousands.
        self._building: dict[bytes, Recipe] = {}
        self._by_build: dict[bytes, Recipe] = {}
        self._by_digest: dict[bytes, Recipe] = {}
        self._use_ids: deque[str] = deque(maxlen=_MOST_USE_IDS)

    def get(self, recipe: bytes) -> Recipe | None:
        return self._recipes.get(recipe)

    def of_build(self, build: bytes, domain: str) -> Recipe:
        """Raises NotFoundError, the same whether it is not there or another's."""
        found = self._by_build.get(build)
        if found is None or found.domain != domain:
            raise errors.NotFoundError("build_id: not known, or not any more: call tfquiver.materialize again")
        return found

    def cost_of(self, digest_id: bytes) -> DerivedCost | None:
        """What a derived data set that is whole took to compute; None: it is none, or nobody has measured it."""
        found = self._by_digest.get(digest_id)
        return found.cost if found is not None and found.cost.rows else None

    @property
    def has_old(self) -> bool:
        """Whether there are draws before others."""
        return any(one.old_since_ms for one in self._recipes.values())

    def builds(self) -> list[Recipe]:
        """Those that are not whole."""
        return list(self._building.values())

    def begin(
        self,
        recipe: bytes,
        source_id: bytes,
        name: str,
        domain: str,
        rows: int,
        draw: int,
        now_s: float,
        is_there: Callable[[bytes], bool],
        up_ms: int = 0,
    ) -> Recipe:
        """A build from nothing. `is_there`: whether that derived data set is registered still. `up_ms`: as in the log.

        Raises ResourceExhaustedError.
        """
        self._make_room(rows, domain, now_s, is_there)
        before = self._recipes.get(recipe)
        old = dict(before.old_since_ms) if before else {}
        if before and before.digest_id and before.draw != draw:
            old[before.digest_id] = up_ms
        begun = DerivedBegun(
            recipe=recipe, digest_id=source_id, name=name, draw=draw, old_digest_ids=old, domain=domain,
            old_since=_dated(old),
        )  # fmt: skip
        self._decide(CommitRecord(derived_begun=begun))
        made = self._recipes[recipe]
        made.touched_s = now_s
        self.sized(made, rows)
        return made

    def _make_room(self, rows: int, domain: str, now_s: float, is_there: Callable[[bytes], bool]) -> None:
        def is_full() -> bool:
            known = self.builds()
            builds = [one.build for one in known if one.build]
            many = rows + sum(build.done if build.rows is None else build.rows for build in builds)
            return len(known) >= MOST_BUILDS or many > MOST_ROWS

        for one in sorted(self.builds(), key=lambda one: one.touched_s) if is_full() else ():
            if is_full() and now_s - one.touched_s > IDLE_S:
                self._decide(CommitRecord(derived_forgotten=DerivedForgotten(recipe=one.recipe)))
        if domain and sum(one.domain == domain for one in self.builds()) >= MOST_BUILDS_OF_ONE:
            raise errors.ResourceExhaustedError(
                f"{domain} has {MOST_BUILDS_OF_ONE} derived data sets computed at one time already: try again when "
                "one is whole"
            )
        if is_full():
            raise errors.ResourceExhaustedError(
                f"{len(self.builds())} derived data sets are being computed; at most {MOST_BUILDS}, with {MOST_ROWS} "
                "shards together, can be: try again when one is whole"
            )
        if len(self._recipes) >= MOST_RECIPES:
            for one in list(self._recipes.values()):
                if one.digest_id and not is_there(one.digest_id):
                    self._decide(CommitRecord(derived_forgotten=DerivedForgotten(recipe=one.recipe)))
        if len(self._recipes) >= MOST_RECIPES:
            raise errors.ResourceExhaustedError(
                f"{MOST_RECIPES} derived data sets are known: delete some (tfquiver dataset delete)"
            )

    def sized(self, recipe: Recipe, rows: int) -> Build:
        """The build of a recipe that is not whole, now that its input is at hand."""
        assert recipe.build is not None
        recipe.build.sized(rows)
        return recipe.build

    def report(self, recipe: Recipe, rows: list[DerivedRow], cost: DerivedCost | None = None) -> int:
        """How many of them were not known yet. They have been checked, and so has `cost`, of all of them: where some
        were known it is not counted. Raises ResourceExhaustedError."""
        assert recipe.build is not None
        parts = sum(one.build.parts for one in self.builds() if one.build) + sum(len(row.parts) for row in rows)
        if parts > MOST_PARTS:
            raise errors.ResourceExhaustedError(
                f"rows: derived data sets that are being computed have {MOST_PARTS} shards already: try again later"
            )
        new = {row.row: row for row in rows if not recipe.build.has(row.row)}
        if new:
            said = DerivedRows(recipe=recipe.recipe, draw=recipe.draw, rows=list(new.values()))
            if cost is not None and len(new) == len(rows):
                said.cost.CopyFrom(cost)
            self._decide(CommitRecord(derived_rows=said))
        return len(new)

    def made(self, recipe: Recipe, digest_id: bytes) -> None:
        old = {
            one: since_ms for one, since_ms in recipe.old_since_ms.items() if one != digest_id
        }  # another draw's, too
        self._decide(CommitRecord(derived_made=_made(recipe, digest_id, old)))

    def let_go(self, recipe: Recipe, left: list[bytes], up_ms: int = 0) -> None:
        """Of the draws before only these are there still. `up_ms`: of those that have none."""
        old = {one: recipe.old_since_ms.get(one) or up_ms for one in left}
        if old != recipe.old_since_ms and recipe.digest_id:
            self._decide(CommitRecord(derived_made=_made(recipe, recipe.digest_id, old)))

    def use(self, recipe: Recipe, use_id: str) -> None:
        """Counted once for each use_id."""
        if use_id in self._use_ids:
            return
        self._use_ids.append(use_id)
        used = DerivedUsed(recipe=recipe.recipe, draw=recipe.draw, uses=recipe.uses + 1)
        self._decide(CommitRecord(derived_used=used))

    def counted(self, use_id: str) -> bool:
        return use_id in self._use_ids

    def apply(self, record: CommitRecord) -> None:
        match record.WhichOneof("record"):
            case "derived_begun":
                begun = record.derived_begun
                self._drop(begun.recipe)
                self._keep(
                    Recipe(
                        begun.recipe, begun.digest_id, begun.name, begun.domain, begun.draw,
                        build=Build(None), old_since_ms=_old_since_ms(begun),
                    )
                )  # fmt: skip
            case "derived_forgotten":
                self._drop(record.derived_forgotten.recipe)
            case "derived_rows":
                self._apply_rows(record.derived_rows)
            case "derived_made":
                made = record.derived_made
                if (known := self._recipes.get(made.recipe)) and known.draw == made.draw:
                    known.digest_id, known.build = made.digest_id, None
                    self._building.pop(made.recipe, None)
                    known.old_since_ms = _old_since_ms(made)
                    known.cost = made.cost
                    self._by_digest[made.digest_id] = known
            case "derived_used":
                used = record.derived_used
                if (known := self._recipes.get(used.recipe)) and known.draw == used.draw:
                    known.uses = used.uses

    def still(self) -> Callable[[], Iterator[CommitRecord]]:
        """Gives the records that bring an empty object where this one is now; in any thread, while this one goes on."""
        now = [(_as_it_is(one), one.build.made() if one.build else None) for one in self._recipes.values()]

        def records() -> Iterator[CommitRecord]:
            for one, rows in now:
                yield CommitRecord(derived_begun=_begun(one))
                left = rows.messages() if rows else iter(())
                all_of_it: DerivedCost | None = one.cost
                while some := list(itertools.islice(left, _ROWS_A_RECORD)):
                    said = DerivedRows(recipe=one.recipe, draw=one.draw, rows=some, cost=all_of_it)
                    yield CommitRecord(derived_rows=said)
                    all_of_it = None
                if one.digest_id:
                    yield CommitRecord(derived_made=_made(one, one.digest_id, one.old_since_ms))
                if one.uses:
                    yield CommitRecord(derived_used=DerivedUsed(recipe=one.recipe, draw=one.draw, uses=one.uses))

        return records

    def _apply_rows(self, rows: DerivedRows) -> None:
        known = self._recipes.get(rows.recipe)
        if known is None or known.draw != rows.draw or known.digest_id:
            return
        known.cost = costs.added(known.cost, rows.cost)
        assert known.build is not None
        for row in rows.rows:
            known.build.put(row)

    def _keep(self, recipe: Recipe) -> None:
        self._recipes[recipe.recipe] = self._building[recipe.recipe] = recipe
        self._by_build[recipe.build_id] = recipe

    def _drop(self, recipe: bytes) -> None:
        if (known := self._recipes.pop(recipe, None)) is not None:
            self._building.pop(recipe, None)
            self._by_build.pop(known.build_id, None)
            if self._by_digest.get(known.digest_id) is known:
                del self._by_digest[known.digest_id]

    def _decide(self, record: CommitRecord) -> None:
        self._journal(record)
        self.apply(record)


def _as_it_is(one: Recipe) -> Recipe:
    """For another thread; none of its values is changed in place. Of ten thousand, on the loop: messages of them take
    ten times as long."""
    return Recipe(
        one.recipe, one.source_id, one.name, one.domain, one.draw, one.uses, None, one.digest_id, one.old_since_ms,
        one.touched_s, one.cost,
    )  # fmt: skip


def _begun(one: Recipe) -> DerivedBegun:
    return DerivedBegun(
        recipe=one.recipe, digest_id=one.source_id, name=one.name, draw=one.draw, old_digest_ids=one.old_since_ms,
        domain=one.domain, old_since=_dated(one.old_since_ms),
    )  # fmt: skip


def _made(recipe: Recipe, digest_id: bytes, old: dict[bytes, int]) -> DerivedMade:
    return DerivedMade(
        recipe=recipe.recipe, draw=recipe.draw, digest_id=digest_id, old_digest_ids=old, cost=recipe.cost,
        old_since=_dated(old),
    )  # fmt: skip


def _dated(old: dict[bytes, int]) -> list[OldSince]:
    return [OldSince(digest_id=digest_id, up_ms=since_ms) for digest_id, since_ms in old.items() if since_ms]


def _old_since_ms(record: DerivedBegun | DerivedMade) -> dict[bytes, int]:
    dates = {one.digest_id: one.up_ms for one in record.old_since}
    return {digest_id: dates.get(digest_id, 0) for digest_id in record.old_digest_ids}
