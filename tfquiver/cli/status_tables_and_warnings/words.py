"""What things are called in the tables of `tfquiver status`, and figures in few characters (pure)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tfquiver import plain_text
from tfquiver.grpc_plumbing import addresses
from tfquiver.sizes_durations_amounts.amounts import many, of_bytes

COMING_BACK_MS = 20_000  # a node asks again every five seconds, and longer where the machine is busy
_UNNAMED = re.compile(r"([^/ ]+/)?job-([0-9a-f]{12}) \2[0-9a-f]{20}-([^:]+)(?::.*)?")  # owner, number, program


def job(info: Mapping[str, Any]) -> str:
    """A session's job; of one without a name the program, and enough of its number to tell it from others."""
    unnamed = _UNNAMED.fullmatch(f"{info['job']} {info['session_key']}")
    return f"{unnamed[1] or ''}{unnamed[3]}-{unnamed[2][:4]}" if unnamed else str(info["job"])


def state(info: Mapping[str, Any]) -> str:
    """Of a session. Keras counts its steps, and leaves without taking the end."""
    return "ended" if info["ended"] or (info["acked"] == info["shards"] and not info["readers"]) else "open"


def standing(info: Mapping[str, Any]) -> str:
    """Its state in at most eight characters; of one that is open, and that nobody reads, for how long that is so."""
    minutes = info.get("idle_ms", 0) // 60_000
    if info["state"] != "open" or info["readers"] or not minutes:
        return str(info["state"])
    if minutes < 60:
        return f"idle {minutes}m"
    return f"idle {minutes // 60}h" if minutes < 48 * 60 else f"idle {min(minutes // 1440, 99)}d"


def just_started(up_ms: int) -> str:
    """Of a coordinator, while nodes that were there before it started may not have come back yet; else empty."""
    return f"started {up_ms // 1000} s ago" if 0 < up_ms < COMING_BACK_MS else ""


def host(control_address: str, here: str) -> str:
    """The machine that a node runs on; `here`: the name of this one, where local addresses lead to."""
    if control_address.startswith("unix:"):
        return here
    try:
        name, _ = addresses.split(control_address)
    except ValueError:
        return control_address
    return here if addresses.is_loopback(name) else name


def store(told: Mapping[str, Any]) -> str:
    """What the object store gives, in a line; of StoreInfo's fields those that are known. Empty: nothing is."""
    known = {name: float(value) for name, value in told.items() if value}
    parts = []
    if "most_bytes_per_s" in known:
        rate, most = (size(round(known.get(name, 0.0))) for name in ("bytes_per_s", "most_bytes_per_s"))
        parts.append(f"{rate}/s were read from it over the last ten seconds, in the best ten of the last hour {most}/s")
    if "s_per_byte" in known:
        busy, request = (_ms(known.get(name, 0.0) * 1e9) for name in ("s_per_byte", "request_s_per_byte"))
        at_once = max(1, round(known.get("request_s_per_byte", 0.0) / known["s_per_byte"]))
        take = "that take" if at_once > 1 else "that takes"
        each = f", by {many(at_once, 'request')} at a time {take} {request} ms for one"
        parts.append(f"while anybody reads a MB comes every {busy} ms{each if 'request_s_per_byte' in known else ''}")
    if "limit_bytes_per_s" in known:
        parts.append(f"--store_bytes_per_s: {size(round(known['limit_bytes_per_s']))}/s")
    return f"store: {'; '.join(parts)}" if parts else ""


def _ms(milliseconds: float) -> str:
    return f"{milliseconds:,.0f}" if milliseconds >= 10 else f"{milliseconds:.2g}"


def size(bytes_: int) -> str:
    """In at most seven characters."""
    return of_bytes(bytes_)


def share(part: int, whole: int) -> str:
    """All only where it is all, and nothing only where it is nothing."""
    if not 0 < part < whole:
        return "100%" if part and part >= whole else "0%"
    return f"{min(max(100 * part / whole, 1), 99):.0f}%"


def resident(dataset: Mapping[str, Any]) -> str:
    """How much of it is cached; by chunks also how many are whole."""
    if "resident_bytes" not in dataset:
        return "-"
    about = "~" if dataset.get("resident_age_ms") else ""
    in_chunks = dataset.get("chunks") and not dataset.get("unreached_bytes")  # else it is not known how many are whole
    chunks = f" {dataset['resident_chunks']}/{dataset['chunks']}" if in_chunks else ""
    return f"{about}{share(dataset['resident_bytes'], dataset['size_bytes'])}{chunks}"


def count(number: int) -> str:
    """In at most six characters."""
    value, letter = float(number), ""
    for letter in ("", "M", "G", "T", "P", "E"):
        if value < (1_000_000 if not letter else 999.5):
            break
        value /= 1_000_000 if not letter else 1000
    return f"{value:.1f}{letter}" if letter else str(number)


def short(name: str) -> str:
    """Enough of an id to tell it from others; `--json` has the whole."""
    return plain_text.plain(name.rpartition("-")[2][:8])
