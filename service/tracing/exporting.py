"""--trace_endpoint and --trace_share; where the spans go."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from absl import flags, logging

from tfquiver import errors
from tfquiver.service.tracing.shard_spans import ShardSpans
from tfquiver.version import VERSION

flags.disclaim_key_flags()  # they are those of whichever server defines them
FLAGS = flags.FLAGS
_QUEUED = 4096  # spans; more than a collector takes in time are dropped
_EXPORT_MS = 5000
_LAST_S = 2.0


def define() -> None:
    """Before the command line is read."""
    flags.DEFINE_string(
        "trace_endpoint",
        "",
        "URL of an OpenTelemetry collector (OTLP over HTTP), for example http://localhost:4318/v1/traces, that is sent "
        "the way of some shards from lease to acknowledgement. Needs tfquiver[tracing]. Empty: none is.",
    )
    flags.DEFINE_float("trace_share", 0.01, "Of how many of the shards, with --trace_endpoint.", 0.0, 1.0)
    flags.register_validator("trace_endpoint", _is_url, "must be a URL, for example http://localhost:4318/v1/traces")


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return not text or (parts.scheme in ("http", "https") and bool(parts.hostname))


@contextmanager
def shard_spans(endpoint: str, share: float, node_id: str) -> Iterator[ShardSpans | None]:
    """None: nobody wants any. Raises InvalidArgumentError where OpenTelemetry is not installed."""
    if not endpoint or not share:
        yield None
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise errors.InvalidArgumentError(
            f"--trace_endpoint needs OpenTelemetry: pip install '.[tracing]' in a clone of tfquiver ({error})"
        ) from error
    named = {
        "service.name": "tfquiver-node",
        "service.version": VERSION,
        "service.instance.id": node_id,
        "host.name": socket.gethostname(),
    }
    provider = TracerProvider(resource=Resource.create(named), shutdown_on_exit=False)
    exporter = OTLPSpanExporter(endpoint=endpoint, timeout=_EXPORT_MS / 1000)
    provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=_QUEUED, export_timeout_millis=_EXPORT_MS))
    logging.info("%g of all shards are traced, to %s", share, endpoint)
    try:
        yield ShardSpans(provider.get_tracer("tfquiver", VERSION), share)
    finally:
        # What a collector does not take by then is dropped, and its thread ends with the process.
        last = threading.Thread(target=provider.shutdown, name="last spans", daemon=True)
        last.start()
        last.join(_LAST_S)
