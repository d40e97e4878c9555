"""Ranges of files of web servers, of which no more is read than was asked for: fsspec takes whatever comes into memory,
which is the whole file where the server does not know of ranges."""

from __future__ import annotations

from typing import Any

from tfquiver.stores.attempts import Transient


async def range_of(fs: Any, url: str, start: int, end: int) -> bytes:
    """As `_cat_file` of fsspec's, on its loop; less where the file ends before. Raises Transient, and as it does."""
    given = dict(fs.kwargs)
    headers = {**(given.pop("headers", None) or {}), "Range": f"bytes={start}-{end - 1}", "Accept-Encoding": "identity"}
    session = await fs.set_session()
    async with session.get(fs.encode_url(url), headers=headers, **given) as reply:
        if reply.status == 416:  # it ends before
            return b""
        fs._raise_not_found_for_status(reply, url)
        asked = f"{end - start} bytes at offset {start} were asked for"
        span = reply.headers.get("Content-Range", "")
        if reply.status == 200 and start:
            raise Transient(f"the whole file comes where {asked}: does the server know of ranges?")
        if span and not span.startswith(f"bytes {start}-"):
            raise Transient(f"{span} comes where {asked}")
        pieces, left = list[bytes](), end - start
        while left and (piece := await reply.content.read(left)):
            pieces.append(piece)
            left -= len(piece)
        # The rest of a whole file that is wanted from its beginning is not read: the connection is closed.
        if reply.status != 200 and not left and await reply.content.read(1):
            raise Transient(f"more bytes came than the {end - start} that were asked for at offset {start}")
        return b"".join(pieces)
