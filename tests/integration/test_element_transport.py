"""The element transport between processes: on one machine, between two, with tokens, and where it cannot be had."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tests.support import element_world
from tests.support.hosts import Hosts, HostsError
from tfquiver.ops.compiling_and_loading import tensorflows

pytestmark = pytest.mark.skipif(
    not tensorflows.transport_name(tf.__version__), reason="this TensorFlow has no transport library"
)
ALL = list(range(300))


def test_a_trainer_with_the_workers_token_gets_elements_and_others_get_them_by_grpc() -> None:
    with element_world.served("localhost", token="right") as target:
        for token, elements, fallbacks in (("right", 300, 0), ("wrong", 0, 1), ("", 0, 1)):
            told = element_world.read(target, 300, token=token)
            assert told["numbers"] == ALL, token
            assert (told["elements_received"], told["fallbacks"]) == (elements, fallbacks), token


def test_a_trainer_that_asks_for_grpc_gets_grpc() -> None:
    with element_world.served("localhost") as target:
        told = element_world.read(target, 300, protocol="grpc")
    assert (told["numbers"], told["elements_received"], told["fallbacks"]) == (ALL, 0, 0)


@pytest.mark.alone
def test_between_two_machines() -> None:
    try:
        with Hosts(["worker", "trainer"]) as hosts:
            here, there = hosts.address("worker"), hosts.prefix("trainer")
            with element_world.served(here, prefix=hosts.prefix("worker")) as target:
                before = hosts.sent_bytes("worker")
                told = element_world.read(target, 300, prefix=there)
                assert (told["numbers"], told["elements_received"], told["fallbacks"]) == (ALL, 300, 0)
                assert hosts.sent_bytes("worker") - before > 300 * 5000
            # Where trainers are told to find it nobody listens.
            with element_world.served(here, told=f"{here}:1", prefix=hosts.prefix("worker")) as target:
                told = element_world.read(target, 300, prefix=there)
                assert (told["numbers"], told["elements_received"], told["fallbacks"]) == (ALL, 0, 1)
    except HostsError as error:
        pytest.skip(str(error))
