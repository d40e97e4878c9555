"""Listings of S3 stores, a page at a time: s3fs takes all of one together, within one deadline, and as many pages as
are said to follow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fsspec.asyn

from tfquiver.glob_patterns_and_file_trees import globs
from tfquiver.stores.listings.listing_pages import ListingPages

Object = dict[str, Any]  # "name": bucket/key, and what S3 says of it


def can_list(fs: Any, path: str) -> bool:
    """Whether `objects` is for `path`: bucket/pattern. Other names are one object, other buckets several, and versions
    have listings of their own."""
    bucket, _, pattern = path.partition("/")
    return bool(fs.async_impl and not fs.version_aware and not globs.is_glob(bucket) and globs.is_glob(pattern))


def objects(fs: Any, path: str, pages: ListingPages, run: Callable[[Callable[[float], Any]], Any]) -> list[Object]:
    """What matches. `run`: makes each request, until it succeeds, given the seconds that it has; or raises."""
    bucket, _, pattern = path.partition("/")
    matches, prefix = globs.compile_glob(pattern).fullmatch, globs.literal_prefix(pattern)
    asked = {"Bucket": bucket, "Prefix": prefix}
    if "/" not in (rest := pattern.removeprefix(prefix)) and "**" not in rest:
        asked["Delimiter"] = "/"  # what lies deeper cannot match
    found: list[Object] = []
    while True:

        def one(left_s: float, asked: dict[str, str] = asked) -> Any:
            return fsspec.asyn.sync(fs.loop, fs._call_s3, "list_objects_v2", timeout=left_s, **asked)

        page = run(one)
        for item in page.get("Contents", ()):
            if not item["Key"].endswith("/") and matches(item["Key"]):
                found.append({"name": f"{bucket}/{item['Key']}", "size": item["Size"], "ETag": item.get("ETag")})
        token = page.get("NextContinuationToken") if page.get("IsTruncated") else None
        pages.came(token, len(found))
        if not token:
            return found
        asked = asked | {"ContinuationToken": token}
