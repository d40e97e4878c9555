"""How the files of derived data sets are called: `derived://<build id>/<the input's URI>`.

They are in no store: what is missing of them is computed again by who can (service/node/derived_shards).
"""

from __future__ import annotations

_SCHEME = "derived://"


def uri_of(build_id: bytes, source_uri: str) -> str:
    return f"{_SCHEME}{build_id.hex()}/{source_uri}"


def is_derived(uri: str) -> bool:
    return uri.startswith(_SCHEME)


def depth(uri: str) -> int:
    """How many functions are between it and a store: 0 for a URI that is not derived."""
    found = 0
    while is_derived(uri):
        found += 1
        _, _, uri = uri.removeprefix(_SCHEME).partition("/")
    return found
