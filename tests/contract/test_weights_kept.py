"""Weights of records at the coordinator: what it takes, keeps, forgets and refuses, and which records it picks."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_client import NODE, CoordinatorClient
from tests.support.coordinator_served import served
from tests.support.digests import numbered_digest
from tfquiver import errors
from tfquiver.messages_and_binary_formats.record_weights import (
    HEADER_BYTES,
    RecordWeights,
    checked_values,
    record_weights,
)
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.service.coordinator.sampled_sessions_and_uploaded_weights.weight_files import WeightFiles
from tfquiver.service.coordinator.server import CoordinatorServer

DIGEST = numbered_digest(20)  # a record each
KEY = "key~weighted"


def weights(seed: int = 0, records: int = 20) -> RecordWeights:
    values = np.random.default_rng(seed).random(records) + 0.1
    return record_weights(DIGEST.content_root, checked_values("w", values))


async def parts_of(data: bytes, part_bytes: int = 50) -> AsyncIterator[bytes]:
    for at in range(0, len(data), part_bytes):
        yield data[at : at + part_bytes]


def kept(tmp_path: Path, in_use: set[bytes] | None = None, most_bytes: int = 1 << 20) -> WeightFiles:
    return WeightFiles(tmp_path / "weights", lambda: in_use or set(), most_bytes)


@on_loop
async def test_what_was_put_is_there_after_a_restart(tmp_path: Path) -> None:
    given = await kept(tmp_path).put(parts_of(weights().to_bytes()), DIGEST)
    (tmp_path / "weights" / f".{'a' * 64}.tfqw.0123456789abcdef.tmp").write_bytes(b"torn")
    found = await kept(tmp_path).get(given.weights_id)
    assert found.values.tolist() == weights().values.tolist()
    assert len(list((tmp_path / "weights").iterdir())) == 1


@on_loop
async def test_what_is_damaged_or_of_other_data_is_refused_before_it_is_kept(tmp_path: Path) -> None:
    files, good = kept(tmp_path), weights().to_bytes()
    others = record_weights(b"o" * 32, weights().values).to_bytes()
    for data, what in (
        (good[:-1] + b"\x01", "do not have their hash"),
        (good[:-4], "bytes for 20 records"),
        (good[:HEADER_BYTES], "bytes for 20 records"),
        (good[: HEADER_BYTES - 1], "not a file of weights"),
        (b"", "not a file of weights"),
        (bytes([*good[:-81], 1, *good[-80:]]), "its header is damaged"),
        (others, "weights of 20 records, of other data"),
        (weights(records=19).to_bytes(), "weights of 19 records, of other data"),
        (weights(records=21).to_bytes(), "weights of 21 records, of other data"),
        (good + bytes(10_000), f"more than {HEADER_BYTES + 80} bytes"),
    ):
        with pytest.raises(errors.InvalidArgumentError, match=what):
            await files.put(parts_of(data), DIGEST)
    assert not list((tmp_path / "weights").iterdir())


@on_loop
async def test_what_was_not_used_for_longest_goes_and_never_what_is_in_use(tmp_path: Path) -> None:
    size_bytes, in_use = len(weights().to_bytes()), set[bytes]()
    files = kept(tmp_path, in_use, most_bytes=3 * size_bytes)
    ids = [(await files.put(parts_of(weights(seed).to_bytes()), DIGEST)).weights_id for seed in range(3)]
    for age, weights_id in enumerate(ids):
        os.utime(tmp_path / "weights" / f"{weights_id.hex()}.tfqw", (age, age))
    in_use.add(ids[0])
    await files.put(parts_of(weights(3).to_bytes()), DIGEST)
    again = kept(tmp_path, in_use)
    with pytest.raises(errors.NotFoundError, match=ids[1].hex()):
        await again.get(ids[1])
    assert (await again.get(ids[0])).weights_id == ids[0]
    tight = kept(tmp_path, set(ids), most_bytes=size_bytes)
    with pytest.raises(errors.ResourceExhaustedError, match=r"are in use by .*, and \d+ B more do not fit"):
        await tight.put(parts_of(weights(4).to_bytes()), DIGEST)


@on_loop
async def test_what_has_gone_is_not_remembered(tmp_path: Path) -> None:
    one, other = weights(1), weights(2)
    files = kept(tmp_path, most_bytes=len(one.to_bytes()) + 10)
    await files.put(parts_of(one.to_bytes()), DIGEST)
    await files.put(parts_of(other.to_bytes()), DIGEST)
    with pytest.raises(errors.NotFoundError):
        await files.get(one.weights_id)
    async with files._one_at_a_time:  # as while others are sent
        assert (await asyncio.wait_for(files.get(other.weights_id), 10)).weights_id == other.weights_id


@on_loop
async def test_a_file_that_was_damaged_is_named_and_gone(tmp_path: Path) -> None:
    given = await kept(tmp_path).put(parts_of(weights().to_bytes()), DIGEST)
    path = tmp_path / "weights" / f"{given.weights_id.hex()}.tfqw"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    files = kept(tmp_path)
    with pytest.raises(errors.DataLossError, match=str(path)):
        await files.get(given.weights_id)
    with pytest.raises(errors.NotFoundError):
        await files.get(given.weights_id)
    await files.put(parts_of(weights().to_bytes()), DIGEST)
    path.write_bytes(weights(7).to_bytes())
    with pytest.raises(errors.DataLossError, match="it holds weights"):
        await kept(tmp_path).get(given.weights_id)


async def put(client: CoordinatorClient, data: bytes, digest_id: bytes = DIGEST.digest_id) -> bytes:
    async def requests() -> AsyncIterator[pb.PutWeightsRequest]:
        yield pb.PutWeightsRequest(digest_id=digest_id, part=data[:30])
        yield pb.PutWeightsRequest(part=data[30:])

    reply = await client.call("PutWeights", requests())
    return bytes(reply.weights_id)


def asking(weights_id: bytes) -> pb.AskSamplingRequest:
    return pb.AskSamplingRequest(
        session_key=KEY, digest_id=DIGEST.digest_id, scheme="weighted", seed=3, weights_id=weights_id,
        arguments='{"records": "", "copies": 3}',
    )  # fmt: skip


def opening(**more: object) -> pb.OpenReaderRequest:
    return pb.OpenReaderRequest(
        reader_id="r", node_id=NODE, incarnation="1", digest_id=DIGEST.digest_id, session_key=KEY, seed=3,
        knows_draws=True, **more,  # type: ignore[arg-type]
    )  # fmt: skip


async def picked(client: CoordinatorClient, session_id: str, draws: Sequence[int]) -> list[bytes]:
    return list((await client.call("PickRecords", pb.PickRecordsRequest(session_id=session_id, draws=draws))).picks)


@on_loop
async def test_nodes_are_told_which_records_and_told_the_same_after_a_restart(tmp_path: Path) -> None:
    async with served(tmp_path / "work") as (_, client):
        await client.upload([DIGEST.to_bytes()])
        with pytest.raises(errors.NotFoundError, match=weights().weights_id.hex()):
            await client.call("AskSampling", asking(weights().weights_id))
        assert await put(client, weights().to_bytes()) == weights().weights_id
        other = numbered_digest(20, "other")
        await client.upload([other.to_bytes()])
        asked = asking(weights().weights_id)
        asked.digest_id, asked.session_key = other.digest_id, "other~weighted"
        with pytest.raises(errors.InvalidArgumentError, match="weights of other data than this data set has"):
            await client.call("AskSampling", asked)
        reply = await client.call("AskSampling", asking(weights().weights_id))
        assert reply.picked == 3 * reply.records  # of one record a shard, each is the heaviest
        with pytest.raises(errors.InvalidArgumentError, match=f"node {NODE} is too old for that"):
            await client.call("OpenReader", opening())
        opened = await client.call("OpenReader", opening(knows_picks=True))
        first = await picked(client, opened.session_id, range(opened.shards))
        assert first == [b"\x01\x01\x01"] * opened.shards
        for draws, what in (
            ([opened.shards], f"draws: {opened.shards}; the session has {opened.shards}"),
            ([], "draws"),
            ([0] * 1025, "draws"),
        ):
            with pytest.raises(errors.InvalidArgumentError, match=what):
                await picked(client, opened.session_id, draws)
        with pytest.raises(errors.NotFoundError):
            await picked(client, "nobody's", [0])
    again = CoordinatorServer()
    await again.start(tmp_path / "work", "localhost:0")
    async with again, CoordinatorClient.connected(f"localhost:{again.bound_port}") as client:
        assert await picked(client, opened.session_id, range(opened.shards)) == first
    (tmp_path / "work" / "weights" / f"{weights().weights_id.hex()}.tfqw").unlink()
    gone = CoordinatorServer()
    await gone.start(tmp_path / "work", "localhost:0")
    async with gone, CoordinatorClient.connected(f"localhost:{gone.bound_port}") as client:
        with pytest.raises(errors.DataLossError, match="the weights of its records are gone"):
            await picked(client, opened.session_id, [0])


@on_loop
async def test_weights_of_data_that_nobody_knows_and_sessions_of_whole_shards(tmp_path: Path) -> None:
    async with served(tmp_path / "work") as (_, client):
        with pytest.raises(errors.NotFoundError):
            await put(client, weights().to_bytes())
        await client.upload([DIGEST.to_bytes()])
        with pytest.raises(errors.InvalidArgumentError, match="digest_id"):
            await put(client, weights().to_bytes(), b"short")
        plain = pb.OpenReaderRequest(
            reader_id="p", node_id=NODE, incarnation="1", digest_id=DIGEST.digest_id, session_key="plain"
        )
        opened = await client.call("OpenReader", plain)
        with pytest.raises(errors.InvalidArgumentError, match="is of whole shards"):
            await picked(client, opened.session_id, [0])
