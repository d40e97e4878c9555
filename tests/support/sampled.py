"""What an epoch of a sampled data set has to bring, record by record: as its scheme draws it."""

from __future__ import annotations

from collections import Counter

import grpc
import numpy as np
import numpy.typing as npt

from tests.support.numbered import Numbers
from tfquiver.digests.digest import Digest
from tfquiver.messages_and_binary_formats.drawn_shards import DrawnShards
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, coordinator_pb2_grpc
from tfquiver.service.coordinator.sampling_by_weights_or_with_replacement import draw_planes
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs import registry
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.drawing import drawn
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.interface import Population
from tfquiver.users_arguments_checked.sampled import Sampled

SEED_OF_ZERO = (1 << 62) + 1  # what seed=0 travels as


def only_digest(coordinator: str, records: int = 0) -> Digest:
    """Of the data set that is registered there, or of the one that has so many records."""
    with grpc.insecure_channel(coordinator) as channel:
        stub = coordinator_pb2_grpc.CoordinatorStub(channel)
        datasets = stub.ListDatasets(coordinator_pb2.ListDatasetsRequest(), timeout=10).datasets
        found = [dataset.digest_id for dataset in datasets if records in (0, dataset.records)]
        parts = stub.GetDigest(coordinator_pb2.GetDigestRequest(digest_id=found[-1]), timeout=10)
        return Digest.from_bytes(b"".join(part.part for part in parts))


def expected(digest: Digest, order: Sampled, epoch: int = 0) -> Counter[int]:
    """How often each record comes; they are numbered in stored order."""
    name, arguments = order.asked()
    files, given = [entry.uri for entry in digest.files], order.record_weights()
    weights = given.of(digest.name, digest.content_root, digest.num_records) if given else None
    of = Population(digest.records, digest.lengths, digest.file_index, files, weights)
    made = drawn(name, registry.make(name, arguments), of, order.seed or SEED_OF_ZERO, epoch)
    return Counter({record: count for record, count in enumerate(counts_of(made, of).tolist()) if count})


def counts_of(made: DrawnShards, of: Population) -> npt.NDArray[np.int64]:
    """How often each record comes, shape [records]."""
    counts = np.zeros(of.all_records, np.int64)
    for draw, shard in enumerate(made.shards.tolist()):
        first, end = int(of.records_before[shard]), int(of.records_before[shard + 1])
        if made.picks is None:
            counts[first:end] += 1
            continue
        assert of.weights is not None
        planes = np.frombuffer(draw_planes.planes(made.picks, of.weights.values[first:end], draw, first), np.uint8)
        bits = np.unpackbits(planes.reshape(made.picks.planes, -1), axis=1, bitorder="little")
        counts[first:end] += bits[:, : end - first].sum(axis=0, dtype=np.int64)
    return counts


def counted(seen: Numbers) -> Counter[int]:
    numbers, counts = np.unique(seen, return_counts=True)
    return Counter(dict(zip(numbers.tolist(), counts.tolist(), strict=True)))


def lost_and_again(seen: Numbers, wanted: Counter[int]) -> tuple[int, int]:
    """Records that came less often than they were drawn, and more often."""
    found = counted(seen)
    return (wanted - found).total(), (found - wanted).total()
