"""Data sets that have names, in words."""

from __future__ import annotations

import time
from typing import Any

from tfquiver.cli.status_tables_and_warnings import words
from tfquiver.digests import formats
from tfquiver.listing.listing_terms import format_name
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb2
from tfquiver.proto.tfquiver.v1 import types_pb2

OLD = "Old"
_OLD_FOR = "for jobs that may read on: an hour by default"  # after the last reader, and after the newest one has come
OLD_LEGEND = f"Old: a version before the newest one, still kept {_OLD_FOR}."
State = pb2.NamedDataset
UNDER_WAY = (State.STATE_SCANNING, State.STATE_WARMING, State.STATE_EVICTING, State.STATE_DELETING)


def phrase(named: pb2.NamedDataset) -> str:
    """`Scanning 43 %`, `Ready`, `Failed`."""
    name = pb2.NamedDataset.State.Name(named.state).removeprefix("STATE_").capitalize()
    if named.state in (State.STATE_SCANNING, State.STATE_WARMING) and named.total_bytes:
        return f"{name} {100 * named.done_bytes // named.total_bytes} %"
    return name


def word(named: pb2.NamedDataset) -> str:
    """As `--json` has its state."""
    return pb2.NamedDataset.State.Name(named.state).removeprefix("STATE_").lower()


def plain(named: pb2.NamedDataset) -> dict[str, Any]:
    """What `--json` has of it beside what it has of every data set."""
    told: dict[str, Any] = {
        "state": word(named),
        "reason": named.reason,
        "reason_s": named.reason_s,
        "version": named.version,
        "done_bytes": named.done_bytes,
        "total_bytes": named.total_bytes,
        "sources": list(named.spec.sources),
        "format": format_name(_format(named)),
        "credentials": named.spec.credentials,
        "pinned": has_pin(named),
        "pin_waits": waits_for_pin(named),
        "placement_waits": waits_for_places(named),
        "old_versions": named.old_versions,
        "owner": named.owner,
        "created_s": named.created_s,
        "used_s": named.used_s,
    }
    if named.HasField("resident_bytes"):
        told["resident_bytes"] = named.resident_bytes
    return told


def has_pin(named: pb2.NamedDataset) -> bool:
    """All of it has its room. A coordinator that is older says only that it is to have it."""
    return named.spec.pin and (named.pinned or not named.HasField("pinned"))


def waits_for_pin(named: pb2.NamedDataset) -> bool:
    """It is to have room of its own, has asked for it, and there is none."""
    return is_unpinned(named) and bool(named.reason)


def waits_for_places(named: pb2.NamedDataset) -> bool:
    """It is not kept as was asked for, for a reason."""
    return is_unplaced(named) and bool(named.reason)


def is_unplaced(named: pb2.NamedDataset) -> bool:
    return named.HasField("placed") and not named.placed


def is_unpinned(named: pb2.NamedDataset) -> bool:
    return named.spec.pin and named.HasField("pinned") and not named.pinned


def pin_text(told: dict[str, Any]) -> str:
    """Of what `plain` gave, behind the state."""
    if told.get("pin_waits"):
        return ", pin waits for room"
    return ", pinned" if told.get("pinned") else ""


def reason(told: dict[str, Any]) -> str:
    """Of what `plain` gave: what was in the way when it was tried need not be so now."""
    if not told.get("reason_s") or told.get("pin_waits") or told.get("placement_waits"):  # these ask again and again
        return str(told["reason"])
    return f"{told['reason']} (as of {_when(told['reason_s'])})"


def to_do(state: str, name: str) -> str:
    """What helps a data set in that state, a word as `plain` has it; "": nothing has to be done."""
    refresh = f"`tfquiver dataset refresh {name}`"
    if state == "stale":
        return f"{refresh} reads what has changed"
    return f"{refresh} tries again, `tfquiver dataset delete {name}` takes it away" if state == "failed" else ""


def lines(told: dict[str, Any], state: str, name: str = "NAME") -> dict[str, str]:
    """What `show` says of it, of what `plain` gave."""
    said = {"state": f"{state}: {reason(told)}" if told["reason"] else state}
    if help := to_do(told["state"], name):
        said["what to do"] = help
    if told["sources"]:
        said["source"] = ", ".join(told["sources"])
    if told["format"] != formats.TFRECORD:
        said["format"] = told["format"]
    if told["credentials"]:
        said["read with"] = told["credentials"]
    old = f"; {told['old_versions']} before it still kept, {_OLD_FOR}" if told["old_versions"] else ""
    said["version"] = f"{told['version']}{old}"
    said["pinned"] = "waits for room" if told["pin_waits"] else "yes" if told["pinned"] else "no"
    if "resident_bytes" in told:
        nothing = told["state"] == "ready" and not told["resident_bytes"]
        what = f" (jobs that read it cache it; `tfquiver dataset prefetch {name}` does so now)" if nothing else ""
        said["cached"] = f"{words.size(told['resident_bytes'])}{what}"
    said["last read"] = _when(told["used_s"])
    return said


def _format(named: pb2.NamedDataset) -> int:
    """One that was made of a digest has the digest's."""
    made_of_bytes = named.dataset.size_bytes and not named.dataset.records
    return types_pb2.DATASET_FORMAT_BYTES if made_of_bytes else named.spec.format


def _when(unix_s: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(unix_s)) if unix_s else "never"
