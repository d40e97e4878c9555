"""Files of web servers by their names: what each is, and what goes wrong.

fsspec calls whatever goes wrong a file that is not there, and whatever an index page links to (`web_index`) empty.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tfquiver import errors
from tfquiver.stores.attempts import Busy, Transient

SCHEMES = ("http", "https")
_GONE, _REFUSED, _BUSY = (404, 410), (401, 403, 407), (429, 503)
_FURTHER = "/?([^?#]*)"
_BUCKETS = {  # a pattern of two groups -> how the store's files are named
    rf"https?://storage\.(?:googleapis|cloud\.google)\.com/([^/?#]+){_FURTHER}": "gs://",
    rf"https?://console\.cloud\.google\.com/storage/browser/(?:_details/)?([^/?#;]+){_FURTHER}": "gs://",
    rf"https?://([^/]+)\.storage\.googleapis\.com{_FURTHER}": "gs://",
    rf"https?://s3[.-][^/]*amazonaws\.com/([^/?#]+){_FURTHER}": "s3://",
    rf"https?://([^/]+)\.s3[.-][^/]*amazonaws\.com{_FURTHER}": "s3://",
    rf"https?://[^/.]+\.blob\.core\.windows\.net/([^/?#]+){_FURTHER}": "az://",
}


def is_pattern(uri: str) -> bool:
    """A question mark begins a query there."""
    return "*" in uri or "[" in uri


def in_bucket(uri: str) -> str:
    """How a file is named that is in a bucket whose web address that is; "": it is none's (pure)."""
    for pattern, begins in _BUCKETS.items():
        if found := re.match(pattern, uri):
            return f"{begins}{found[1]}/{found[2]}".rstrip("/")
    return ""


async def info(fs: Any, url: str) -> dict[str, Any]:
    """As fsspec's `_info`.

    Raises FileNotFoundError; PermissionError, Transient and InvalidArgumentError, which say what the server says; and
    what its client raises.
    """
    headers = await headers_of(fs, url, sized=True)
    size_bytes = _size_bytes(headers)
    if size_bytes is None:
        raise errors.InvalidArgumentError(f"{url}: the web server does not say how long that is: copy it from there")
    versions = {key: headers[key] for key in ("ETag",) if headers.get(key)}
    return {"name": url, "type": "file", "size": size_bytes, **versions}


async def headers_of(fs: Any, url: str, sized: bool = False) -> Mapping[str, str]:
    """`sized`: those that say how long it is, if there are any."""
    session, given = await fs.set_session(), {"allow_redirects": True, **fs.kwargs}
    sent = {**(given.pop("headers", None) or {}), "Accept-Encoding": "identity"}
    headers: Mapping[str, str] | None = None
    status, reason = 0, ""
    for ask in (session.head, session.get):  # some, as of addresses that are signed, do not take the former
        async with ask(fs.encode_url(url), headers=sent, **given) as reply:  # of a whole file nothing is read
            status, reason = reply.status, reply.reason
            if status < 400:
                headers = reply.headers
                if not sized or _size_bytes(headers) is not None:
                    break
    if headers is not None:
        return headers
    said = f"the web server says {status} {reason}"
    if status in _GONE:
        raise FileNotFoundError(url)
    if status in _REFUSED:
        meant = in_bucket(url)
        raise PermissionError(f"{said}; files of that bucket are named {meant}" if meant else said)
    if status in _BUSY:
        raise Busy(said)
    if status >= 500:
        raise Transient(said)
    raise errors.InvalidArgumentError(f"{url}: {said}")


def _size_bytes(headers: Mapping[str, str]) -> int | None:
    said = headers.get("Content-Length", "")
    is_whole = headers.get("Content-Encoding", "") in ("", "identity")  # else the size is of something else
    return int(said) if is_whole and said.isascii() and said.isdecimal() else None
