"""Data sets that have names, as tests make them: what was asked for, one that is ready, and digests by number."""

from __future__ import annotations

from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.service.coordinator.named_dataset_lifecycle import lifecycle
from tfquiver.service.coordinator.named_dataset_lifecycle.lifecycle import Life


def spec(name: str = "train", **fields: object) -> pb.DatasetSpec:
    return pb.DatasetSpec(name=name, sources=["gs://b/x-*"], **fields)  # type: ignore[arg-type]


def digest(number: int) -> bytes:
    return bytes([number]) * 32


def ready() -> Life:
    return lifecycle.scanned(lifecycle.made(spec(), "life", "", False, 1), b"1" * 32, "a")
