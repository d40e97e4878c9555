"""The life of one data set that has a name: what was asked for, or happened, makes of its state the next one. Pure.

Each function is given the state and returns another object; the same one where nothing changes. `step` grows with every
task that nodes are given, so that what they say of an earlier one counts for nothing.

```
(made) -> SCANNING -> READY <-> WARMING       any -> DELETING -> (gone)
             |  ^      |  ^
             v  |      v  |
           FAILED    EVICTING
```
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from types import MappingProxyType

from tfquiver import errors
from tfquiver.plain_text import plain
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb2
from tfquiver.proto.tfquiver.v1.commit_log_pb2 import NamedDatasetSet, OldSince

Life = NamedDatasetSet
SCANNING, READY, WARMING = Life.PHASE_SCANNING, Life.PHASE_READY, Life.PHASE_WARMING
EVICTING, DELETING, FAILED = Life.PHASE_EVICTING, Life.PHASE_DELETING, Life.PHASE_FAILED
MAX_TROUBLE = 1000
NOT_PINNED, NOT_PLACED = "not pinned: ", "not placed: "
FIGURES_S = 300
MOST_OF = 256  # nodes that a trouble is of: each is in the record
NOBODY: Mapping[str, int] = MappingProxyType({})


def made(spec: pb2.DatasetSpec, life: str, owner: str, by_job: bool, now_s: int) -> Life:
    """`life`: unlike that of every data set before."""
    begun = Life(spec=spec, life=life, owner=owner, by_job=by_job, phase=SCANNING, step=1, created_s=now_s)
    if spec.digest_id:
        begun.phase, begun.version, begun.digest_id = READY, 1, spec.digest_id
    return begun


def task_id(life: Life) -> str:
    """Of the task that nodes have now, if they have one."""
    return f"{life.life}/{life.step}"


def scan_id(life: Life) -> str:
    """Of the scan that is under way, or was when it was deleted; "": of none."""
    step = life.step if life.phase == SCANNING else life.scan_step
    return f"{life.life}/{step}" if step else ""


def wants_pin(life: Life) -> bool:
    """Its newest version is to have room of its own, and has none."""
    return life.phase not in (SCANNING, DELETING) and bool(life.digest_id) and life.spec.pin and not life.pinned


def wants_place(life: Life) -> bool:
    """Its newest version is to have a rule, and has none."""
    return life.spec.HasField("placement") and not life.placed


def is_settled(life: Life, but_for_room: bool = False) -> bool:
    """Nothing is to be done about it as long as its digest is there: of ten thousand most are.

    `but_for_room`: but that its pin may wait for its room.
    """
    if life.phase != READY or life.old_digest_ids or wants_place(life):
        return False
    return life.spec.pin == life.pinned or (but_for_room and life.spec.pin)


# What people ask for. Raises InUseError where it cannot be now.


def prefetch(life: Life) -> Life:
    _check_there(life)
    if life.phase == FAILED:
        raise errors.InUseError(
            f"name: data set {life.spec.name} could not be scanned ({life.trouble}): "
            f"refresh it first (tfquiver dataset refresh {life.spec.name})"
        )
    if life.phase == WARMING or (life.phase == SCANNING and life.warm):
        return life
    if life.phase == SCANNING:
        return _with(life, warm=True)
    return _begins_to_warm(life)


def evict(life: Life) -> Life:
    _check_there(life)
    if life.spec.pin:
        raise errors.InUseError(
            f"name: data set {life.spec.name} is pinned: unpin it first (tfquiver dataset unpin {life.spec.name})"
        )
    if life.phase == SCANNING:
        raise errors.InUseError(
            f"name: data set {life.spec.name} is being scanned: wait until it is ready, or delete it"
        )
    if life.phase in (EVICTING, FAILED):
        return life
    return _stepped(life, EVICTING)


def refresh(life: Life) -> Life:
    _check_there(life)
    if life.spec.digest_id:
        raise errors.InUseError(
            f"name: data set {life.spec.name} was made of a digest, which says what it is: make another "
            "of the newer digest"
        )
    if life.phase == EVICTING:
        raise errors.InUseError(f"name: data set {life.spec.name} is being evicted: refresh it when that is over")
    if life.phase == SCANNING:  # it may have listed the source before what has changed
        return life if life.refresh_again else _with(life, refresh_again=True)
    return _with(_stepped(life, SCANNING), warm=life.phase == WARMING)


def pin(life: Life, pinned: bool) -> Life:
    _check_there(life)
    if pinned and life.phase == EVICTING:
        raise errors.InUseError(f"name: data set {life.spec.name} is being evicted: pin it when that is over")
    if life.spec.pin == pinned:
        return life
    # What could not be had is no trouble to those who want it no more.
    changed = _with(life, trouble="") if life.trouble.startswith(NOT_PINNED) else _with(life)
    changed.spec.pin = pinned
    if pinned:
        changed.evicted, changed.keeps_nothing = "", False
    elif life.phase != SCANNING:
        changed.warm = False
    return changed


def delete(life: Life) -> Life:
    if life.phase == DELETING:
        return life
    return _with(_stepped(life, DELETING), scan_step=life.step if life.phase == SCANNING else 0)


# What happens.


def found(life: Life, task_id: str, digest_id: bytes) -> Life:
    """A scan has registered that, or come upon it; its node says a while later that it is over, or it is another by
    then. By the scan's task: trainers register what is theirs under any name, and what an earlier scan has found is not
    this one's."""
    if not task_id or task_id != scan_id(life) or digest_id == life.found_digest_id:
        return life
    after = _with(life)
    _leaves_found(after)
    if life.phase == SCANNING and digest_id not in (life.digest_id, *life.old_digest_ids):
        after.found_digest_id = digest_id
    elif life.phase == DELETING and digest_id not in (life.digest_id, *life.old_digest_ids):
        after.old_digest_ids.append(digest_id)
    return after


def scanned(life: Life, digest_id: bytes, node_id: str) -> Life:
    if life.phase != SCANNING:
        return life
    after = _with(life, trouble="", stale=False, scanned_by=node_id)
    _leaves_found(after, digest_id)
    if digest_id != life.digest_id:
        if life.digest_id:
            after.old_digest_ids.append(life.digest_id)
        kept = [one for one in dict.fromkeys(after.old_digest_ids) if one != digest_id]
        del after.old_digest_ids[:]
        after.old_digest_ids.extend(kept)
        after.digest_id, after.version = digest_id, life.version + 1
        after.pinned, after.placed, after.evicted, after.keeps_nothing = False, False, "", False
    after.phase = READY
    if life.refresh_again:
        return _scanned_again(after, life.warm)
    # A scan caches on the way what nodes take just then; of what is pinned all is to be there.
    return _with(_stepped(after, WARMING), warm=False) if life.warm or life.spec.pin else after


def scan_failed(life: Life, why: str) -> Life:
    """Of a version after the first one: the one before is read on."""
    if life.phase != SCANNING:
        return life
    if life.refresh_again:
        return _scanned_again(life, life.warm)
    # Others may have come to use what it has found.
    ended = READY if life.version else FAILED
    return _with(life, phase=ended, trouble=_said(why), warm=False, found_digest_id=b"")


def warmed(life: Life, trouble: str, lacks_room_bytes: Mapping[str, int] = NOBODY) -> Life:
    """`lacks_room_bytes`: by node, where `trouble` is that there was no room, and nothing else."""
    if life.phase != WARMING:
        return life
    if trouble and life.warm:  # its pin has had its room since it was begun
        return _begins_to_warm(life)
    after = _with(life, phase=READY, trouble=_said(trouble) or _unkept(life), warm=bool(trouble))
    after.trouble_of.update(lacks_room_bytes if trouble else {})
    return after


def trouble_over(life: Life, room_bytes: Mapping[str, int | None], all_here: bool = False) -> Life:
    """Without a trouble that is over: what found no room has come, or would find it now; who was away is back. What is
    pinned is read then.

    Args:
      room_bytes: by node; None: it is lost, and may come back.
    """
    for node_id, lacks_bytes in life.trouble_of.items():
        room = room_bytes.get(node_id, lacks_bytes or None)  # of one that has left nothing is to come any more
        if room is None or (room < lacks_bytes and not all_here):
            return life
    if not life.trouble_of:
        return life
    return _with(life, trouble="", warm=False) if all_here or not _is_to_fill(life) else _begins_to_warm(life)


def warm_again(life: Life) -> Life:
    return _stepped(life, WARMING) if life.phase == WARMING else life


def evicted(life: Life, trouble: str, shared: bool = False, away: Collection[str] = ()) -> Life:
    """Nodes that were away do it when they are back, unless it is `shared`: then nobody does. `away`: of which nodes
    `trouble` says so."""
    if life.phase != EVICTING:
        return life
    by = "" if shared else task_id(life)
    after = _with(life, phase=READY, trouble=_said(trouble), evicted=by, keeps_nothing=not shared)
    after.trouble_of.update(dict.fromkeys(list(away)[:MOST_OF], 0))
    return after


def outdated(life: Life, digest_id: bytes, why: str) -> Life:
    """A node has met a file of it that is another than when it was scanned."""
    if life.stale or life.digest_id != digest_id or life.phase in (SCANNING, DELETING):
        return life
    return _with(life, stale=True, trouble=_said(why))


def placed(life: Life, trouble: str = "") -> Life:
    """Its newest version has the rule that `spec.placement` asks for; or it cannot have it now, for a reason."""
    before = "" if life.trouble.startswith(NOT_PLACED) else life.trouble
    return _with(life, placed=not trouble, trouble=_said(trouble) or before)


def unplaced(life: Life) -> Life:
    """Another data set of the same content may have set another rule for it."""
    return _with(life, placed=False) if life.placed else life


def pinned(life: Life, is_so: bool, trouble: str = "", now_s: int = 0) -> Life:
    """Its newest version has the setting that `spec.pin` asks for, or none any more.

    `now_s`: with figures of the moment, such as what disks have room for, the same trouble is another one only after a
    while: with each heartbeat of a node each pin that waits would be a record.
    """
    if life.pinned == is_so and (not trouble or life.trouble == _said(trouble)):
        return life
    if life.pinned == is_so and now_s - life.trouble_s < FIGURES_S and _is_same(life.trouble, _said(trouble)):
        return life
    waited = life.trouble.startswith(NOT_PINNED)
    before = "" if is_so and waited else life.trouble
    after = _with(life, pinned=is_so, trouble=_said(trouble) or before)
    if is_so and life.phase == WARMING:  # what was read before it had its room may have found none
        after.warm = after.warm or waited
    return _begins_to_warm(after) if is_so and _is_to_fill(life) else after


def released(life: Life, digest_id: bytes) -> Life:
    """That version is registered no more, as far as this data set is concerned."""
    after = _with(life)
    left = [one for one in life.old_digest_ids if one != digest_id]
    del after.old_digest_ids[:]
    after.old_digest_ids.extend(left)
    if after.digest_id == digest_id:
        after.digest_id = b""
    return after


def lost(life: Life) -> Life:
    """Its digest is gone from the coordinator's disk, or somebody has removed it: it is scanned anew."""
    if life.phase == DELETING or not life.digest_id:
        return life
    why = "its digest was lost"
    # One that was made of a digest is that digest: what it says of sources is no wish to read them.
    if life.spec.digest_id or not life.spec.sources:
        return _with(life, phase=FAILED, digest_id=b"", pinned=False, placed=False, trouble=why)
    anew = _with(_stepped(life, SCANNING), digest_id=b"", pinned=False, placed=False)
    return _with(anew, trouble=why, warm=life.phase == WARMING)


def used(life: Life, now_s: int) -> Life:
    """`now_s`: 0: it is not, just now. What is read of it, or found there, after it was emptied is its own again."""
    if not now_s or (life.used_s >= now_s and not life.keeps_nothing):
        return life
    return _with(life, used_s=max(now_s, life.used_s), keeps_nothing=False)


def since(life: Life, before: Life | None, now_s: int, up_ms: int = 1) -> Life:
    """With when its trouble came, and each old version became one. `before`: what it was. `up_ms`: > 0, as in the log;
    time without a coordinator does not count."""
    came_s = 0
    if life.trouble:
        came_s = before.trouble_s if before is not None and before.trouble == life.trouble else now_s
    known = _old_since(before) if before is not None else {}
    dates = {old: known.get(old, up_ms) for old in life.old_digest_ids}
    if life.trouble_s == came_s and _old_since(life) == dates:
        return life
    after = _with(life, trouble_s=came_s)
    del after.old_since[:]
    after.old_since.extend(OldSince(digest_id=old, up_ms=at_ms) for old, at_ms in dates.items())
    return after


def old_ms(life: Life, digest_id: bytes, up_ms: int) -> int:
    """For how long that version is not its newest, as far as is known."""
    return up_ms - _old_since(life).get(digest_id, up_ms)


def _old_since(life: Life) -> dict[bytes, int]:
    return {old.digest_id: old.up_ms for old in life.old_since}


def _unkept(life: Life) -> str:
    """Why it waits for room of its own, or for its places, whatever is read meanwhile."""
    return life.trouble if life.trouble.startswith((NOT_PINNED, NOT_PLACED)) else ""


def _begins_to_warm(life: Life) -> Life:
    return _with(_stepped(life, WARMING), trouble=_unkept(life))


def _is_to_fill(life: Life) -> bool:
    """Its pin has, or gets, the room that there was not when it was read."""
    return life.phase == READY and life.spec.pin and life.warm


def _check_there(life: Life) -> None:
    if life.phase == DELETING:
        raise errors.InUseError(f"name: data set {life.spec.name} is being deleted")


def _stepped(life: Life, phase: Life.Phase.ValueType) -> Life:
    evicted = life.evicted if phase == SCANNING else ""  # then it is to go again, or to come
    after = _with(life, phase=phase, step=life.step + 1, trouble="", warm=False, evicted=evicted)
    after.keeps_nothing, after.refresh_again = life.keeps_nothing and phase == SCANNING, False
    _leaves_found(after)
    return after


def _scanned_again(life: Life, warm: bool) -> Life:
    return _with(_stepped(life, SCANNING), warm=warm)


def _leaves_found(life: Life, becomes: bytes = b"") -> None:
    """In place: what a scan has found goes as old versions do, unless it `becomes` the newest one."""
    if life.found_digest_id not in (b"", becomes, life.digest_id, *life.old_digest_ids):
        life.old_digest_ids.append(life.found_digest_id)
    life.found_digest_id = b""


def _with(life: Life, **fields: object) -> Life:
    after = Life()
    after.CopyFrom(life)
    if fields.get("trouble", life.trouble) != life.trouble:
        after.ClearField("trouble_of")
    for name, value in fields.items():
        setattr(after, name, value)
    return after


def _said(why: str) -> str:
    return plain(why, MAX_TROUBLE)


def _is_same(one: str, other: str) -> bool:
    """But for their figures."""
    return re.sub(r"\d+", "", one) == re.sub(r"\d+", "", other)
