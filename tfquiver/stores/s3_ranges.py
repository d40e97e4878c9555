"""Ranges of objects of S3 stores, of which no more is read than was asked for: s3fs takes whatever comes into memory,
which is the whole object where something on the way does not know of ranges."""

from __future__ import annotations

from typing import Any

from tfquiver.stores.attempts import Transient


async def range_of(fs: Any, path: str, start: int, end: int) -> bytes:
    """As `_cat_file` of s3fs, on its loop; less where the object ends before. Raises Transient, and as s3fs does."""
    bucket, key, version = fs.split_path(path)
    of_version = {"VersionId": version} if version else {}
    reply = await fs._call_s3("get_object", Bucket=bucket, Key=key, Range=f"bytes={start}-{end - 1}", **of_version)
    body = reply["Body"]
    try:
        if trouble := _not_it(reply, start, end):
            raise Transient(trouble)
        pieces, left = [], end - start + 1  # with one byte more than there may be
        while left and (piece := await body.read(left)):
            pieces.append(piece)
            left -= len(piece)
        if not left:
            raise Transient(f"more bytes came than the {end - start} that were asked for at offset {start}")
        return b"".join(pieces)
    finally:
        body.close()


def _not_it(reply: Any, start: int, end: int) -> str:
    """What is wrong, by its headers, with an answer; empty: nothing."""
    asked = f"{end - start} bytes at offset {start} were asked for"
    if reply.get("ContentLength", 0) > end - start:
        return f"{reply['ContentLength']} bytes come where {asked}"
    span = reply.get("ContentRange", "")
    if span and not span.startswith(f"bytes {start}-"):
        return f"{span} comes where {asked}"
    if start and not span and reply["ResponseMetadata"]["HTTPStatusCode"] == 200:
        return f"the whole object comes where {asked}"
    return ""
