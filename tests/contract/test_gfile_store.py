"""tf.io.gfile with tensorflow-io, which needs a TensorFlow of its own: 2.16.

Make its environment with `python3.11 -m venv E && E/bin/pip install tensorflow-cpu==2.16.2 tensorflow-io==0.37.1
google-crc32c`, and name E/bin/python in TFQUIVER_TF216_PYTHON.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PYTHON = os.environ.get("TFQUIVER_TF216_PYTHON", "")
ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(
    not PYTHON, reason="TFQUIVER_TF216_PYTHON names no interpreter with TensorFlow 2.16: how to make one stands above"
)
def test_s3_through_tensorflow_io() -> None:
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        _, port = server.get_host_and_port()
        keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}
        client = boto3.client(
            "s3",
            endpoint_url=f"http://127.0.0.1:{port}",
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )
        client.create_bucket(Bucket="bucket")
        client.close()
        where = {"S3_ENDPOINT": f"http://127.0.0.1:{port}", "S3_USE_HTTPS": "0", "S3_VERIFY_SSL": "0"}
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "TF_CPP_MIN_LOG_LEVEL": "2",
            **keys,
            **where,
        }
        checks = [PYTHON, "-m", "tests.support.gfile_checks"]
        done = subprocess.run(
            checks, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
        )
    finally:
        server.stop()
    assert done.stdout.splitlines()[-1:] == ["ok"], done.stderr


def test_with_another_tensorflow_there_is_no_gfile_store() -> None:
    """In a process of its own: other tests may have imported TensorFlow into this one."""
    code = (
        "import sys; from tfquiver.stores.gfile import GfileStore; "
        "assert GfileStore.open('s3') is None; assert 'tensorflow' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
