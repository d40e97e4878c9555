"""The port where Prometheus finds what a server tells: read by Prometheus' own parser, and by callers who misbehave."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import threading
import time
import urllib.request
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.parser import text_string_to_metric_families

from tests.support.aio import on_loop
from tfquiver import errors
from tfquiver.grpc_plumbing import addresses
from tfquiver.service.metrics import exposition
from tfquiver.service.metrics.instruments import LOG_SYNC

ANYWHERE = "localhost:0"


async def one_gauge() -> AsyncIterator[Metric]:
    yield GaugeMetricFamily("tfquiver_answer", "What it is.", value=42)


def scraped(where: str) -> dict[str, float]:
    """Samples by name and labels."""
    with urllib.request.urlopen(f"http://{where}/metrics", timeout=20) as reply:
        text = reply.read().decode()
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found["".join([sample.name, *(f"|{key}={value}" for key, value in sorted(sample.labels.items()))])] = (
                sample.value
            )
    return found


@on_loop
async def test_families_instruments_and_the_process_are_told() -> None:
    with exposition.exposed(ANYWHERE, "node", one_gauge, [LOG_SYNC]) as where:
        found = await asyncio.to_thread(scraped, where)
        assert found["tfquiver_answer"] == 42
        assert found["tfquiver_commit_log_sync_seconds_count"] >= 0
        assert found["process_resident_memory_bytes"] > 0
        assert any(name.startswith("tfquiver_build_info|server=node") for name in found)
        before = found["tfquiver_event_loop_lag_seconds_count"]
        while (await asyncio.to_thread(scraped, where))["tfquiver_event_loop_lag_seconds_count"] == before:
            await asyncio.sleep(0.05)
    with pytest.raises(OSError):
        await asyncio.to_thread(scraped, where)


@on_loop
async def test_it_can_be_had_again_after_it_was_closed() -> None:
    for _ in range(2):
        with exposition.exposed(ANYWHERE, "node", one_gauge, [LOG_SYNC]) as where:
            assert (await asyncio.to_thread(scraped, where))["tfquiver_answer"] == 42


@on_loop
async def test_nothing_is_served_where_nothing_is_asked_for() -> None:
    with exposition.exposed("", "node", one_gauge) as where:
        assert where == ""


@on_loop
async def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with (
            pytest.raises(errors.UnavailableError, match=f"--metrics_address: cannot listen on {address}"),
            exposition.exposed(address, "node", one_gauge),
        ):
            pass


@pytest.mark.slow
@on_loop
async def test_a_loop_that_is_held_up_is_not_waited_for() -> None:
    with exposition.exposed(ANYWHERE, "node", one_gauge) as where:
        asked = asyncio.get_running_loop().run_in_executor(None, scraped, where)
        time.sleep(exposition.ANSWER_S + 1)  # this is what holds the loop up
        found = await asked
        assert "tfquiver_answer" not in found
        assert "process_resident_memory_bytes" in found
        assert (await asyncio.to_thread(scraped, where))["tfquiver_answer"] == 42


@pytest.mark.slow
@on_loop
async def test_callers_that_say_nothing_or_nonsense_hold_nobody_up() -> None:
    with exposition.exposed(ANYWHERE, "node", one_gauge) as where:
        host, port = addresses.split(where)

        def misbehave() -> dict[str, float]:
            silent = [socket.create_connection((host, port)) for _ in range(4 * exposition.MOST_AT_ONCE)]
            try:
                for number, one in enumerate(silent):
                    if number % 2:
                        one.sendall(b"\x00\xff" * 4000 + b"\r\n\r\n")
                deadline = time.monotonic() + 30
                while True:
                    try:
                        return scraped(where)
                    except OSError:
                        if time.monotonic() > deadline:
                            raise
                        time.sleep(0.1)
            finally:
                for one in silent:
                    one.close()

        assert (await asyncio.to_thread(misbehave))["tfquiver_answer"] == 42


@on_loop
async def test_one_caller_with_all_places_makes_room_for_another() -> None:
    with exposition.exposed("127.0.0.1:0", "node", one_gauge) as where, contextlib.ExitStack() as held:
        for _ in range(2 * exposition.MOST_AT_ONCE):
            greedy = socket.create_connection(addresses.split(where), source_address=("127.0.0.2", 0))
            held.enter_context(greedy).sendall(b"GET /metrics HTTP/1.1\r\n")
        began_s = time.monotonic()
        assert (await asyncio.to_thread(scraped, where))["tfquiver_answer"] == 42
        assert time.monotonic() - began_s < exposition._SILENT_S, "before these are hung up on for their silence"


@on_loop
async def test_as_many_callers_as_there_are_places_make_room_for_one_more() -> None:
    """Each holds one, and asks for nothing: none has more than another."""

    def until_it_is_told() -> float:
        while True:
            with contextlib.suppress(OSError):
                return scraped(where)["tfquiver_answer"]
            time.sleep(0.05)

    with exposition.exposed("127.0.0.1:0", "node", one_gauge) as where, contextlib.ExitStack() as held:
        began_s = time.monotonic()
        for number in range(exposition.MOST_AT_ONCE):
            one = socket.create_connection(addresses.split(where), source_address=(f"127.0.0.{2 + number}", 0))
            held.enter_context(one).sendall(b"GET /metrics HTTP/1.1\r\n")
        assert await asyncio.to_thread(until_it_is_told) == 42
        assert time.monotonic() - began_s < exposition._SILENT_S, "before these are hung up on for their silence"


@on_loop
async def test_who_waits_for_a_late_answer_makes_room_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more callers than places none would be answered, for as long as the server is slow."""
    monkeypatch.setattr(exposition, "_NEEDED_S", 0.0)
    asked, all_ask, answer = 0, asyncio.Event(), asyncio.Event()

    async def late() -> AsyncIterator[Metric]:
        nonlocal asked
        asked += 1
        if asked == exposition.MOST_AT_ONCE:
            all_ask.set()
        await answer.wait()
        async for family in one_gauge():
            yield family

    def told(number: int) -> bytes:
        with socket.create_connection(addresses.split(where), source_address=(f"127.0.0.{2 + number}", 0)) as one:
            with contextlib.suppress(OSError):
                one.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
                return one.makefile("rb").read()
            return b""

    places = exposition.MOST_AT_ONCE
    with exposition.exposed("127.0.0.1:0", "node", late) as where, ThreadPoolExecutor(places) as threads:
        futures = [threads.submit(told, number) for number in range(places)]
        await all_ask.wait()
        assert await asyncio.to_thread(told, places) == b"", "there is no place"
        answer.set()
        answers = await asyncio.gather(*map(asyncio.wrap_future, futures))
    assert all(b"tfquiver_answer 42" in one for one in answers)


@on_loop
async def test_callers_that_are_never_silent_and_never_done_are_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exposition, "LONGEST_S", 1.0)
    with exposition.exposed(ANYWHERE, "node", one_gauge) as where, contextlib.ExitStack() as stack:
        slow = [
            stack.enter_context(socket.create_connection(addresses.split(where)))
            for _ in range(exposition.MOST_AT_ONCE)
        ]
        for one in slow:
            one.sendall(b"GET /metrics HTTP/1.1\r\n")
        async with asyncio.timeout(30):
            while True:
                for one in slow:
                    with contextlib.suppress(OSError):
                        one.sendall(b"X")
                try:
                    found = await asyncio.to_thread(scraped, where)
                    break
                except OSError:
                    await asyncio.sleep(0.1)
        assert found["tfquiver_answer"] == 42


@on_loop
async def test_scrapes_for_which_there_was_no_thread_take_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    start, left = threading.Thread.start, [exposition.MOST_AT_ONCE]

    def scarce(thread: threading.Thread) -> None:
        if left[0] and "process_request_thread" in thread.name:
            left[0] -= 1
            raise RuntimeError("can't start new thread")
        start(thread)

    with exposition.exposed(ANYWHERE, "node", one_gauge) as where:
        monkeypatch.setattr(threading.Thread, "start", scarce)
        while left[0]:
            with pytest.raises(OSError):
                await asyncio.to_thread(scraped, where)
        assert (await asyncio.to_thread(scraped, where))["tfquiver_answer"] == 42


@on_loop
async def test_out_of_descriptors_the_thread_is_not_kept_busy_and_scrapes_come_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    complaints: list[float] = []
    monkeypatch.setattr(exposition, "every_n_seconds", lambda *_: complaints.append(time.monotonic()))
    with exposition.exposed("127.0.0.1:0", "node", one_gauge) as where, socket.socket() as caller:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            caller.connect(addresses.split(where))
            async with asyncio.timeout(20):
                while len(complaints) < 4:
                    await asyncio.sleep(0.01)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert complaints[3] - complaints[0] > 0.25, "three tries, a pause before each"
        assert (await asyncio.to_thread(scraped, where))["tfquiver_answer"] == 42
