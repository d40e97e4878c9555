"""Runs under TensorFlow 2.16 with tensorflow-io: the gfile store against s3://bucket, which the caller serves.

Prints "ok" last when all held.
"""

from __future__ import annotations

from tests.support.records import SMALL_SHARDS, stream
from tfquiver import errors, stores
from tfquiver.listing import listing
from tfquiver.scanning import digest_build
from tfquiver.scanning.digest_verify import check_content
from tfquiver.stores.gfile import GfileStore

DEADLINE_S = 20.0
PAYLOADS = [bytes([i % 256]) * (i % 100) for i in range(500)]


def expect(error: type[Exception], uri: str, generation: str, length: int = 5) -> None:
    try:
        stores.for_uri(uri).read(uri, 0, length, generation, DEADLINE_S)
    except error as raised:
        assert uri in str(raised), raised
    else:
        raise AssertionError(f"{uri}: no {error.__name__}")


def main() -> None:
    import tensorflow as tf

    assert tf.__version__.startswith("2.16."), tf.__version__
    store = stores.for_uri("s3://bucket/x")
    assert isinstance(store, GfileStore), store
    data = stream(PAYLOADS)
    for name in ("d/train-2", "d/train-1", "d/other"):
        with tf.io.gfile.GFile(f"s3://bucket/{name}", "wb") as file:
            file.write(data)
    files = listing.expand("s3://bucket/d/train-*")
    assert [file.uri for file in files] == ["s3://bucket/d/train-1", "s3://bucket/d/train-2"]
    assert all(file.size_bytes == len(data) and file.generation for file in files)
    one = files[0]
    assert store.read(one.uri, 10, 20, one.generation, DEADLINE_S) == data[10:30]
    digest = digest_build.build(files, SMALL_SHARDS)
    digest.verify_ids()
    assert digest.num_records == 1000
    assert list(check_content(digest)) == []
    assert store.list("s3://bucket/nope*") == []
    expect(errors.NotFoundError, "s3://bucket/nope", "")
    expect(errors.StaleDigestError, "s3://bucket/nope", "1-1")
    expect(errors.StaleDigestError, one.uri, "1-1")
    expect(errors.StaleDigestError, one.uri, "", len(data) + 1)
    print("ok")


if __name__ == "__main__":
    main()
