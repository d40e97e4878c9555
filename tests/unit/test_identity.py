"""Who may call what: one table for all calls, and none that it does not know."""

from __future__ import annotations

import pytest
from google.protobuf.descriptor import ServiceDescriptor

from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, derived_datasets_pb2, named_datasets_pb2, node_pb2
from tfquiver.roles_and_tokens import identity
from tfquiver.roles_and_tokens.identity import CALLS, EVERYBODY, Identity, Role

SERVICES: list[ServiceDescriptor] = [
    *coordinator_pb2.DESCRIPTOR.services_by_name.values(),
    *derived_datasets_pb2.DESCRIPTOR.services_by_name.values(),
    *named_datasets_pb2.DESCRIPTOR.services_by_name.values(),
    *node_pb2.DESCRIPTOR.services_by_name.values(),
]
JOB, NODE, ADMIN = Identity(Role.JOB, "sweep"), Identity(Role.NODE, "rack1"), Identity(Role.ADMIN, "ann")


def test_the_table_has_every_call_of_the_protos_and_no_other() -> None:
    methods = {f"/{service.full_name}/{method.name}" for service in SERVICES for method in service.methods}
    assert methods == set(CALLS)


@pytest.mark.parametrize("who", [JOB, NODE, ADMIN, EVERYBODY])
def test_a_call_that_the_table_does_not_know_is_refused(who: Identity) -> None:
    with pytest.raises(errors.PermissionError_, match="FormatDisks is not for"):
        identity.check_call(who, "/tfquiver.v1.Coordinator/FormatDisks")


def test_an_admin_may_call_everything() -> None:
    for method in CALLS:
        identity.check_call(ADMIN, method)
        identity.check_call(EVERYBODY, method)


def test_a_job_token_is_no_node() -> None:
    acts = (
        "Heartbeat",
        "Leave",
        "Orders",
        "NodeCalls",
        "Missing",
        "Identify",
        "Lease",
        "Ack",
        "OpenReader",
        "CloseReader",
        "Ticket",
    )
    for name in acts:
        with pytest.raises(
            errors.PermissionError_,
            match=rf"{name} is not for job sweep, whose token this is: it takes an admin's or a node's token",
        ):
            identity.check_call(JOB, f"/tfquiver.v1.Coordinator/{name}")
    with pytest.raises(errors.PermissionError_, match="data port"):
        identity.check_data_port(JOB)


def test_a_node_token_sets_nothing_and_resumes_nothing() -> None:
    for name in ("SetCache", "AllocateCacheSize", "AllocateRemoteIO", "Resume", "GetPosition", "Forget"):
        with pytest.raises(errors.PermissionError_, match=name):
            identity.check_call(NODE, f"/tfquiver.v1.Coordinator/{name}")
    identity.check_data_port(NODE)


def test_a_job_token_makes_nobody_forget_a_node() -> None:
    with pytest.raises(errors.PermissionError_, match=r"Forget is not for job sweep, .* it takes an admin's token"):
        identity.check_call(JOB, "/tfquiver.v1.Coordinator/Forget")


def test_a_node_has_nothing_of_its_own() -> None:
    assert (JOB.owner, NODE.owner, ADMIN.owner, EVERYBODY.owner) == ("sweep", "", "ann", "")


@pytest.mark.parametrize("name", ["", "-x", "a/b", "a b", "ä", "a\n", "x" * 65, "#"])
def test_names_that_cannot_be(name: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="is no name"):
        identity.check_name(name)
