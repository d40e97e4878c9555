"""What is lacking between a data set's state and what there is: the next thing to be done about it. Pure.

Asked again after each step, and after a restart: what was done already is seen in the facts, and not done again.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass

from tfquiver.service.coordinator.named_dataset_lifecycle import lifecycle
from tfquiver.service.coordinator.named_dataset_lifecycle.lifecycle import DELETING, EVICTING, SCANNING, WARMING, Life
from tfquiver.service.coordinator.named_dataset_lifecycle.progress import TaskProgress, some
from tfquiver.service.coordinator.named_dataset_lifecycle.told_to_nodes.tasks import versions


@dataclass(frozen=True, slots=True)
class Facts:
    registered: Container[bytes]  # digest ids
    storing: Collection[str]  # live nodes that keep anything
    readers: Mapping[bytes, int]  # by digest id; what mounts show is read
    progress: TaskProgress  # of its task
    may_set: bool = True  # a setting that could not be had is not asked for again just now
    awaited: Container[bytes] = ()  # versions that a job may come back to: between two epochs nobody reads
    pins: Container[bytes] = ()  # versions whose room nobody else's wish keeps
    short: bool = False  # some newest version could not have the room that it wants, when it last asked
    shared: Sequence[str] = ()  # other data sets of which its newest version is one, too


@dataclass(frozen=True, slots=True)
class Become:
    """The next state."""

    life: Life


@dataclass(frozen=True, slots=True)
class Release:
    """That version is removed, if it is no other data set's; then `lifecycle.released`. `force`: whoever reads it."""

    digest_id: bytes
    force: bool


@dataclass(frozen=True, slots=True)
class SetPin:
    """Its newest version gets, or gives back, the room for all of it; then `lifecycle.pinned`."""

    pinned: bool


@dataclass(frozen=True, slots=True)
class GiveRoomBack:
    """That version is an old one, and nobody reads it; its room is to be had by others."""

    digest_id: bytes


@dataclass(frozen=True, slots=True)
class SetPlacement:
    """Its newest version gets its rule; then `lifecycle.placed`."""


@dataclass(frozen=True, slots=True)
class Go:
    """Nothing of it is left but the name."""


Step = Become | Release | SetPin | GiveRoomBack | SetPlacement | Go


def next_step(life: Life, facts: Facts) -> Step | None:
    if life.phase == DELETING:
        return _deleting(life, facts)
    if life.digest_id and life.digest_id not in facts.registered:
        return Become(lifecycle.lost(life))
    over, progress = facts.progress.all_over(facts.storing), facts.progress
    if life.phase == SCANNING and (why := progress.all_refused(facts.storing)):
        return Become(lifecycle.scan_failed(life, why))
    if life.phase == WARMING and facts.storing and over:
        if progress.seen.difference(facts.storing):  # what such a node had, or was to read, is others' now
            return Become(lifecycle.warm_again(life))
        return Become(lifecycle.warmed(life, progress.trouble, progress.lacks_room_bytes))
    if life.phase == EVICTING and facts.storing and over:
        away = progress.seen.difference(facts.storing)
        other = _shared(len(facts.shared)) or progress.trouble
        return Become(lifecycle.evicted(life, other or _away(away), bool(facts.shared), () if other else sorted(away)))
    unread = [old for old in life.old_digest_ids if not facts.readers.get(old)]
    # A job between two epochs finds what it had, unless somebody who is to have room goes without.
    given = [
        old for old in unread if old in facts.pins and (facts.short or not life.spec.pin or old not in facts.awaited)
    ]
    if given:
        return GiveRoomBack(given[0])
    if life.phase != SCANNING and life.digest_id and facts.may_set:
        if lifecycle.wants_place(life):
            return SetPlacement()
        if life.spec.pin != life.pinned:
            return SetPin(life.spec.pin)
    return next((Release(old, force=False) for old in unread if old not in facts.awaited), None)


def _deleting(life: Life, facts: Facts) -> Step | None:
    """When nodes have deleted what they keep. Where none is there they do it when they hear of the removal, and so do
    those whose disk does not answer: that may be for ever, and the name, and who deletes it, would wait."""
    if not facts.progress.all_over(facts.storing, but_hindered=True):
        return None
    left = versions(life)
    return Release(left[0], force=True) if left else Go()


def _away(node_ids: Collection[str]) -> str:
    """Why there may be something of it again for a moment; "": nobody is away."""
    if not node_ids:
        return ""
    return f"node {some(sorted(node_ids))} is away: what it keeps of it goes when it comes back"


def _shared(others: int) -> str:
    """Why it is still there; "": it is nobody else's. Without names: who reads this may not know the others."""
    if others > 1:
        return f"{others} other data sets are of the same content: it is kept for them"
    return "another data set is of the same content: it is kept for that" if others else ""
