"""How a trial reads the store without tfquiver: every epoch it downloads every object, in random order.

TensorFlow's own gs:// file system has its hosts built in and cannot be pointed at an emulator, so the objects come
through google-cloud-storage, the client that tfquiver uses too, two at a time, and are read by TFRecordDataset.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tensorflow as tf


def dataset(bucket: str, prefix: str, scratch: Path, seed: int) -> tf.data.Dataset:
    """Records [] of all objects of `bucket` that begin with `prefix`; `scratch` holds at most one copy of each."""
    import tensorflow as tf
    from google.cloud import storage

    client = storage.Client(project="demo")
    names = sorted(blob.name for blob in client.list_blobs(bucket, prefix=prefix))

    def download(name: tf.Tensor) -> str:
        path = scratch / name.numpy().decode().replace("/", "_")
        client.bucket(bucket).blob(name.numpy().decode()).download_to_filename(str(path))
        return str(path)

    paths = (
        tf.data.Dataset.from_tensor_slices(names)
        .shuffle(len(names), seed=seed)
        .map(lambda name: tf.py_function(download, [name], tf.string), num_parallel_calls=2, deterministic=False)
    )
    return paths.interleave(tf.data.TFRecordDataset, cycle_length=4).shuffle(1000, seed=seed)
