"""Writes dispatcher_journal: what TensorFlow's dispatcher really writes. Run by hand when TensorFlow's minor changes.

One job named "first" on two workers, read to its end; one job named "second", of which nothing is read.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import tensorflow as tf
from tensorflow.core.protobuf import service_config_pb2

SERVICE = tf.data.experimental.service


def main(out: Path) -> None:
    with tempfile.TemporaryDirectory() as work_dir:
        dispatcher = SERVICE.DispatchServer(
            service_config_pb2.DispatcherConfig(port=0, protocol="grpc", work_dir=work_dir, fault_tolerant_mode=True)
        )
        address = dispatcher.target.split("://")[1]
        workers = [
            SERVICE.WorkerServer(
                service_config_pb2.WorkerConfig(
                    port=0,
                    protocol="grpc",
                    dispatcher_address=address,
                    worker_address="localhost:%port%",
                    heartbeat_interval_ms=200,
                    dispatcher_timeout_ms=5000,
                )
            )
            for _ in range(2)
        ]
        dataset = tf.data.Dataset.range(20)
        for name, read in (("first", True), ("second", False)):
            shared = dataset.apply(SERVICE.distribute(SERVICE.ShardingPolicy.DYNAMIC, address, job_name=name))
            iterator = iter(shared)
            if read:
                assert sorted(int(element) for element in iterator) == list(range(20))
        shutil.copy(Path(work_dir) / "tf_data_dispatcher_journal" / "journal_0", out)
        del workers


if __name__ == "__main__":
    main(Path(sys.argv[1]))
