"""What is noted of a shard's way, and what is told of it."""

from __future__ import annotations

import pytest

from tfquiver import errors
from tfquiver.service.tracing import exporting
from tfquiver.service.tracing.shard_spans import ShardSpans

pytest.importorskip("opentelemetry.sdk")
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class World:
    def __init__(self, share: float) -> None:
        self.now, self.drawn = 100, 0.0
        self.told = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self.told))
        spans = ShardSpans(provider.get_tracer("test"), share, lambda: self.now, lambda: self.drawn)
        self.reader = spans.reader("job", lambda shard: f"file:{shard}")

    def spans(self) -> list[tuple[str, int, int]]:
        return [(one.name, one.start_time or 0, one.end_time or 0) for one in self.told.get_finished_spans()]


def test_a_shard_that_is_acknowledged() -> None:
    world = World(share=0.5)
    world.now = 110
    world.reader.leased([7], 100)
    world.now = 130
    world.reader.sent(7, "peer", 2048)
    world.now = 190
    world.reader.acked([7, 8])
    assert world.spans() == [("lease", 100, 110), ("fetch", 110, 130), ("emit", 130, 190), ("shard", 100, 190)]
    about = dict(world.told.get_finished_spans()[-1].attributes or {})
    assert about == {
        "tfquiver.job": "job", "tfquiver.shard": "file:7", "tfquiver.outcome": "acknowledged",
        "tfquiver.source": "peer", "tfquiver.bytes": 2048,
    }  # fmt: skip
    world.reader.acked([7])
    world.reader.gone(complete=False)
    assert len(world.spans()) == 4, "told once"


def test_a_shard_that_is_given_back_before_it_came() -> None:
    world = World(share=0.5)
    world.reader.leased([7], 100)
    world.now = 150
    world.reader.gone(complete=False)
    assert world.spans() == [("lease", 100, 100), ("fetch", 100, 150), ("shard", 100, 150)]
    assert (world.told.get_finished_spans()[-1].attributes or {})["tfquiver.outcome"] == "given back"


def test_what_is_not_drawn_is_not_noted_and_what_is_noted_is_bounded() -> None:
    world = World(share=0.5)
    world.drawn = 0.5
    world.reader.leased(range(10), 100)
    world.reader.gone(complete=False)
    assert not world.spans()
    world.drawn = 0.4
    world.reader.leased(range(5000), 100)
    world.reader.gone(complete=False)
    assert sum(name == "shard" for name, *_ in world.spans()) == 1024


def test_who_lacks_opentelemetry_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry.sdk.trace", None)
    with (
        pytest.raises(errors.InvalidArgumentError, match=r"pip install '\.\[tracing\]' in a clone"),
        exporting.shard_spans("http://localhost:1/v1/traces", 0.5, "n"),
    ):
        pass


@pytest.mark.parametrize(
    ("text", "valid"),
    [("", True), ("http://a:1/v1/traces", True), ("a:1", False), ("ftp://a", False), ("http://[", False)],
)
def test_what_is_an_endpoint(text: str, valid: bool) -> None:
    assert exporting._is_url(text) is valid
