from __future__ import annotations

import asyncio
import threading

import pytest

from tests.support.aio import on_loop
from tfquiver import errors
from tfquiver.service.node.origin.bounded_reads import BoundedReads


@on_loop
async def test_reads_that_hang_give_up_their_places() -> None:
    """Sixteen of them used to end all others, for ever."""
    let_go = threading.Event()
    reads = BoundedReads(parallel=4, most_hung=8, limit_s=0.1)
    hanging = [asyncio.ensure_future(reads.run(f"shard {n}", let_go.wait, 30)) for n in range(8)]
    async with asyncio.timeout(10):
        assert await reads.run("good", lambda: 7) == 7
        for task in hanging:
            with pytest.raises(errors.UnavailableError, match="has not come back within"):
                await task
        assert reads.hung == 8
        with pytest.raises(errors.UnavailableError, match="8 reads hang already"):
            await reads.run("one more", lambda: 7)
        let_go.set()
        while reads.hung:
            await asyncio.sleep(0)
        assert await reads.run("good", lambda: 7) == 7
        await reads.close()
        with pytest.raises(errors.CancelledError_):
            await reads.run("late", lambda: 7)


@on_loop
async def test_what_a_read_raises_is_raised() -> None:
    def fail() -> int:
        raise errors.NotFoundError("gone")

    reads = BoundedReads(parallel=1, most_hung=1, limit_s=5)
    with pytest.raises(errors.NotFoundError, match="gone"):
        await reads.run("shard", fail)
    await reads.close()
