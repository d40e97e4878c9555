"""A tf.data service in one process and a trainer in another, for the element transport: programs, and what runs them.

    python -m tests.support.element_world serve HOST TOLD TOKEN     until its input ends
    python -m tests.support.element_world read TARGET PROTOCOL TOKEN ELEMENTS

HOST: under which the servers are reached; TOLD: where trainers are told that elements are, host:port. Each prints one
line, a JSON object.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tests.support import warm
from tests.support.cluster import die_with_parent, tensorflow_env

_COMMAND = [sys.executable, "-m", "tests.support.element_world"]


@contextmanager
def served(host: str, told: str = "", token: str = "", prefix: Sequence[str] = ()) -> Iterator[str]:
    """A dispatcher and a worker; its target."""
    command = [*prefix, *_COMMAND, "serve", host, told or f"{host}:%dts_port%", token]
    with warm.Popen(
        command,
        warm_kind="tensorflow",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=tensorflow_env(),
        preexec_fn=die_with_parent,
    ) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["target"]
        finally:
            process.kill()


def read(
    target: str, elements: int, protocol: str = "tfquiver", token: str = "", prefix: Sequence[str] = ()
) -> dict[str, Any]:
    """What a trainer of its own process got: `elements` numbers, and the transport's counts."""
    command = [*prefix, *_COMMAND, "read", target, protocol, token, str(elements)]
    done = warm.run(
        command, warm_kind="tensorflow", stdout=subprocess.PIPE, env=tensorflow_env(), timeout=120, check=True
    )
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def _serve(host: str, told: str, token: str) -> None:
    import tensorflow as tf
    from tensorflow.core.protobuf import service_config_pb2

    from tfquiver.ops.compiling_and_loading import transport

    loaded = transport.load()
    assert loaded is not None
    loaded.add_token(token)
    head = tf.data.experimental.service.DispatchServer()
    port = head.target.rpartition(":")[2]
    worker = tf.data.experimental.service.WorkerServer(
        service_config_pb2.WorkerConfig(
            dispatcher_address=f"{host}:{port}",
            protocol="grpc",
            worker_address=f"{host}:%port%",
            heartbeat_interval_ms=200,
            data_transfer_protocol=transport.PROTOCOL,
            data_transfer_address=told,
        ),
        start=True,
    )
    print(json.dumps({"target": f"grpc://{host}:{port}"}), flush=True)
    sys.stdin.read()
    loaded.close()
    worker._stop()
    os._exit(0)


def _read(target: str, protocol: str, token: str, elements: int) -> None:
    import tensorflow as tf

    from tfquiver.ops.compiling_and_loading import transport

    loaded = transport.load()
    assert loaded is not None
    loaded.add_token(token)
    service = tf.data.experimental.service
    dataset = tf.data.Dataset.range(elements).map(lambda i: tf.repeat(tf.strings.as_string(i), 5000))
    shared = dataset.apply(
        service.distribute(service.ShardingPolicy.OFF, target, data_transfer_protocol=protocol, compression=None)
    )
    numbers = [int(element[4999]) for element in shared.as_numpy_iterator()]
    print(json.dumps({"numbers": numbers, **vars(loaded.counts())}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        _serve(*sys.argv[2:5])
    else:
        target, protocol, token, elements = sys.argv[2:6]
        _read(target, protocol, token, int(elements))
