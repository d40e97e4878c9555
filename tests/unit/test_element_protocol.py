"""Which protocol `tfquiver.distribute` takes: the argument's, the environment's, or gRPC."""

from __future__ import annotations

import pytest

from tfquiver import errors
from tfquiver.tensorflow_client import element_transport
from tfquiver.tensorflow_client.element_transport import AUTO, GRPC, TFQUIVER, VARIABLE


@pytest.mark.parametrize(
    ("argument", "environment", "taken"),
    [
        (None, {}, GRPC),
        (None, {VARIABLE: ""}, GRPC),
        (None, {VARIABLE: "AUTO"}, AUTO),
        (None, {VARIABLE: "tfquiver"}, TFQUIVER),
        ("grpc", {VARIABLE: "tfquiver"}, GRPC),
        ("AUTO", {VARIABLE: "nonsense"}, AUTO),
    ],
)
def test_the_argument_comes_before_the_environment(
    argument: str | None, environment: dict[str, str], taken: str
) -> None:
    assert element_transport.named(argument, environment) == taken


@pytest.mark.parametrize(
    ("argument", "environment", "said"),
    [
        (None, {VARIABLE: "GRPC"}, f"{VARIABLE}='GRPC': must be one of AUTO, grpc, tfquiver"),
        ("", {}, "data_transfer_protocol=''"),
        ("tcp", {VARIABLE: "grpc"}, "data_transfer_protocol='tcp'"),
    ],
)
def test_what_cannot_be_is_refused_by_its_name(argument: str | None, environment: dict[str, str], said: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=said):
        element_transport.named(argument, environment)


@pytest.mark.parametrize("protocol", [GRPC, AUTO, TFQUIVER])
def test_a_job_that_trainers_share_takes_grpc_whatever_the_environment_says(
    protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, protocol)
    assert element_transport.for_job(None, None) == protocol
    assert element_transport.for_job(None, "shared") == GRPC
