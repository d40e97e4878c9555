"""An S3 server (moto) that checks who asks, with one user to begin with."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
import fsspec.asyn
import requests


class S3Server:
    def __init__(self, url: str) -> None:
        self.url = url
        self._root = {
            "endpoint_url": url,
            "region_name": "us-east-1",
            "aws_access_key_id": "root",
            "aws_secret_access_key": "root",
        }
        self.checks(False)
        self.key, self.secret = self.new_user("s3:*")
        self.checks(True)

    def new_user(self, action: str) -> tuple[str, str]:
        """Key and secret of another user, who may do that with everything."""
        name = uuid.uuid4().hex  # servers of one process share moto's state
        iam = boto3.client("iam", **self._root)
        self.checks(False)
        iam.create_user(UserName=name)
        allow = {"Effect": "Allow", "Action": action, "Resource": "*"}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [allow]})
        iam.put_user_policy(UserName=name, PolicyName="p", PolicyDocument=policy)
        made = iam.create_access_key(UserName=name)["AccessKey"]
        iam.close()
        self.checks(True)
        return made["AccessKeyId"], made["SecretAccessKey"]

    def environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def put(self, path: str, data: bytes) -> None:
        """`path`: bucket/name; the bucket is made."""
        bucket, _, name = path.partition("/")
        client: Any = boto3.client(
            "s3", **(self._root | {"aws_access_key_id": self.key, "aws_secret_access_key": self.secret})
        )
        client.create_bucket(Bucket=bucket)
        client.put_object(Bucket=bucket, Key=name, Body=data)
        client.close()

    def checks(self, on: bool) -> None:
        requests.post(f"{self.url}/moto-api/reset-auth", data="0" if on else "1000000", timeout=10).raise_for_status()


@contextmanager
def s3_server() -> Iterator[S3Server]:
    from moto.server import ThreadedMotoServer  # a second, for who collects all tests and runs none of these

    fsspec.asyn.get_loop()  # fsspec's one loop, with its thread and wake-up sockets, is there for good
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    running = S3Server(f"http://{host}:{port}")
    try:
        yield running
    finally:
        running.checks(False)  # it is a setting of the process
        server.stop()
