"""What is to be done so that a data set is as its object asks, and what the object's status says of it. Pure."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tfquiver.service.operator.checked_specs.dataset_wish import DatasetWish, Rule
from tfquiver.service.operator.conditions import Condition, merged
from tfquiver.sizes_durations_amounts.amounts import apart

_NAMED = 3  # data sets, of many


@dataclass(frozen=True, slots=True)
class Observed:
    """A data set as the coordinator has it. `state`: as in NamedDataset.State, in lower case."""

    state: str
    reason: str
    version: int
    sources: tuple[str, ...]
    format: str
    credentials: str
    pin: bool
    digest_id: str  # hexadecimal; empty: not scanned yet
    size_bytes: int
    done_bytes: int
    total_bytes: int
    resident_bytes: int | None
    rule: Rule


class Action(enum.Enum):
    CREATE = "create"
    PIN = "pin"
    UNPIN = "unpin"
    PLACE = "place"
    PREFETCH = "prefetch"


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a round came to nothing: `reason` for programs. `is_final`: it stays until the object changes.
    `leaves_readable`: what was refused is where the data set is kept, or what is read of it ahead; jobs read it."""

    reason: str
    message: str
    is_final: bool = True
    leaves_readable: bool = False


_TAKEN = Trouble(
    "NameTaken", "a data set of that name is there, made by somebody else of other sources, format or credentials: "
    "delete it, or give this object another name",
)  # fmt: skip


def actions(wish: DatasetWish, observed: Observed | None, prefetched_version: int) -> list[Action]:
    """`prefetched_version`: that the status says was asked for already: of what did not fit nothing is asked again."""
    if observed is None:
        return [Action.CREATE]
    if is_another(wish, observed) or observed.state == "deleting":
        return []
    made = []
    if wish.pin != observed.pin:
        made.append(Action.PIN if wish.pin else Action.UNPIN)
    if observed.digest_id and not wish.rule.is_as(observed.rule):
        made.append(Action.PLACE)  # first: it is read where it belongs
    if wish.prefetch and observed.state == "ready" and observed.version > prefetched_version:
        made.append(Action.PREFETCH)
    return made


def placed_otherwise(wish: DatasetWish, observed: Observed, others: Sequence[str]) -> Trouble | None:
    """Why it is not placed as was asked for: `others` are of the same content, which is kept in one way. Were each
    object to have its own, the content would move to and fro for ever. None: it asks for nothing."""
    if not others or wish.rule == Rule():
        return None
    named = ", ".join(others[:_NAMED]) + (f" and {len(others) - _NAMED} more" if len(others) > _NAMED else "")
    return Trouble(
        "PlacedOtherwise", f"not placed: it is of the same content as {named}, which is kept {_how(observed.rule)}: "
        "content is kept in one way, whatever it is called; leave placement out, or say the same there and here, and "
        f"change it for all (tfquiver dataset place {wish.name})", leaves_readable=True,
    )  # fmt: skip


def _how(rule: Rule) -> str:
    how = [f"on {rule.selector or 'all nodes'}"]
    how += [f"on at most {rule.stripe} of them"] * bool(rule.stripe) + ["rack-local"] * rule.rack_local
    return ", ".join(how + [f"{rule.replicas} of each shard"] * (rule.replicas > 1))


def is_another(wish: DatasetWish, observed: Observed) -> bool:
    """It was made of something else: only who deletes it makes it anew."""
    asked = (wish.sources, wish.format, wish.credentials)
    return asked != (observed.sources, observed.format, observed.credentials)


def is_own(wish: DatasetWish, observed: Observed | None, before: Any) -> bool:
    """Whether the data set of that name is this object's, and goes with it. `before`: the status, which says so of one
    whose spec has become another since; one that somebody made by hand of something else is theirs (decision 0038)."""
    return own_name(before) == wish.name or (observed is not None and not is_another(wish, observed))


def own_name(before: Any) -> str:
    """That of the object's data set, as its status has it; empty: it has none yet."""
    name = before.get("dataset") if isinstance(before, dict) else None
    return name if isinstance(name, str) else ""


def status(
    wish: DatasetWish | None,
    observed: Observed | None,
    trouble: Trouble | None,
    before: Any,
    generation: int,
    at: str,
    prefetched_version: int = 0,
) -> dict[str, Any]:
    """For the object; None in it: that field goes.

    Args:
      wish: None: the spec cannot be read; `trouble` says why.
      before: the status as it is.
      at: the time, RFC 3339.
    """
    if observed is not None and wish is not None and is_another(wish, observed) and trouble is None:
        trouble = (
            _TAKEN
            if own_name(before) != wish.name
            else Trouble(
                "SpecChanged",
                "sources, format and credentials of a data set stay: delete this object, and make another",
            )
        )
    were = before.get("conditions") if isinstance(before, dict) else None
    made = {
        "observedGeneration": generation,
        "state": "Invalid" if wish is None else _word(observed.state) if observed else "Pending",
        "message": _message(observed, trouble),
        "conditions": merged(were, [_ready(observed, trouble), _resident(observed)], generation, at),
        "prefetchedVersion": prefetched_version or None,
    }
    for name in ("digest", "version", "sizeBytes", "residentBytes", "progress"):
        made[name] = None
    made["dataset"] = own_name(before) or None
    if wish is not None and is_own(wish, observed, before):
        made["dataset"] = wish.name
    if observed is not None:
        made["progress"] = _progress(observed)
        if observed.version:
            made |= {"digest": observed.digest_id, "version": observed.version, "sizeBytes": observed.size_bytes}
            made["residentBytes"] = observed.resident_bytes
    return made


def _word(state: str) -> str:
    return state.capitalize()


def _message(observed: Observed | None, trouble: Trouble | None) -> str:
    if trouble is not None:
        return trouble.message
    return observed.reason if observed else ""


def _progress(observed: Observed) -> str | None:
    if observed.state not in ("scanning", "warming") or not observed.total_bytes:
        return None
    return f"{min(100, 100 * observed.done_bytes // observed.total_bytes)}%"


def _ready(observed: Observed | None, trouble: Trouble | None) -> Condition:
    if trouble is not None and not (observed is not None and trouble.leaves_readable):
        return Condition("Ready", False if trouble.is_final else None, trouble.reason, trouble.message)
    if observed is None:
        return Condition("Ready", False, "Pending")
    can_be_read = observed.version > 0 and observed.state not in ("deleting", "failed")
    return Condition("Ready", can_be_read, _word(observed.state), _message(observed, trouble))


def _resident(observed: Observed | None) -> Condition:
    if observed is None or not observed.version or observed.resident_bytes is None:
        return Condition("Resident", None, "NotKnown")
    whole = observed.resident_bytes >= observed.size_bytes
    there, size = apart(observed.resident_bytes, observed.size_bytes)
    said = f"{there} of {size}"
    return Condition("Resident", whole, "Whole" if whole else "Partly" if observed.resident_bytes else "Nothing", said)
