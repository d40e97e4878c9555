"""TensorFlow's own worker and `distribute`, by a protocol of choice for elements."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf import service_config_pb2

from tfquiver.ops.compiling_and_loading import tensorflows, transport

SERVICE = tf.data.experimental.service
PROTOCOLS = ["grpc"] + ([transport.PROTOCOL] if tensorflows.transport_name(tf.__version__) else [])


def worker(dispatcher: str, protocol: str = "grpc") -> Any:
    """Of `dispatcher`, host:port. To be stopped by `stop`."""
    if protocol != "grpc":
        transport.load()
    config = service_config_pb2.WorkerConfig(
        dispatcher_address=dispatcher,
        protocol="grpc",
        worker_address="localhost:%port%",
        heartbeat_interval_ms=200,
        data_transfer_protocol="" if protocol == "grpc" else protocol,
        data_transfer_address="localhost:%dts_port%",
    )
    return SERVICE.WorkerServer(config, start=True)


def stop(*workers: Any) -> None:
    """In the order that their transport needs, if they have one: TensorFlow does not know that it asks them."""
    loaded = transport.load()
    if loaded is not None:
        loaded.close()
    for one in workers:
        one._stop()
    if loaded is not None:
        loaded.join()


def distributed(dataset: tf.data.Dataset, policy: Any, target: str, protocol: str = "grpc", **more: Any) -> Any:
    return dataset.apply(
        SERVICE.distribute(policy, target, data_transfer_protocol=None if protocol == "grpc" else protocol, **more)
    )
