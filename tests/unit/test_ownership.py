"""Whose data sets and session keys are: decisions, and that a log brings them back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfquiver import errors
from tfquiver.proto.tfquiver.v1.commit_log_pb2 import CommitRecord, DatasetRemoved
from tfquiver.roles_and_tokens.identity import EVERYBODY, Identity, Role
from tfquiver.service.coordinator.registering_sharing_removing_datasets import ownership
from tfquiver.service.coordinator.registering_sharing_removing_datasets.ownership import Ownership

BLUE, GREEN, RED = (Identity(Role.JOB, name) for name in ("blue", "green", "red"))
NODE, ADMIN = Identity(Role.NODE, "rack1"), Identity(Role.ADMIN, "ann")
ONE, TWO = b"1" * 32, b"2" * 32


def made(max_claims: int = 100) -> tuple[Ownership, list[CommitRecord]]:
    journal: list[CommitRecord] = []
    return Ownership(journal.append, max_claims), journal


def test_what_nobody_owns_is_for_nodes_and_admins() -> None:
    owned, _ = made()
    assert [owned.may_read(who, ONE) for who in (BLUE, NODE, ADMIN, EVERYBODY)] == [False, True, True, True]
    assert [owned.owns(who, ONE) for who in (BLUE, NODE, ADMIN, EVERYBODY)] == [False, False, True, True]


def test_two_who_bring_the_same_own_it_both() -> None:
    owned, journal = made()
    for who in (BLUE, GREEN, BLUE, NODE, EVERYBODY):
        owned.acquire(who, ONE)
    assert len(journal) == 2
    assert owned.owns(BLUE, ONE) and owned.owns(GREEN, ONE)
    assert not owned.may_read(RED, ONE)
    assert owned.give_up(BLUE, ONE) == ["green"]
    assert not owned.may_read(BLUE, ONE)


def test_sharing_is_for_reading_and_is_replaced() -> None:
    owned, _ = made()
    owned.acquire(BLUE, ONE)
    owned.share(ONE, ["green"], False)
    assert owned.may_read(GREEN, ONE) and not owned.owns(GREEN, ONE) and not owned.may_read(RED, ONE)
    with pytest.raises(errors.PermissionError_, match="belongs to blue, not to job green"):
        owned.check_owner(GREEN, ONE)
    owned.share(ONE, [], True)
    assert owned.may_read(RED, ONE) and not owned.may_read(RED, TWO)
    owned.share(ONE, [], False)
    assert not owned.may_read(GREEN, ONE)
    with pytest.raises(errors.InvalidArgumentError, match="is no name"):
        owned.share(ONE, ["a/b"], False)
    with pytest.raises(errors.ResourceExhaustedError, match="share it with everybody"):
        owned.share(ONE, [f"n{i}" for i in range(ownership.MAX_NAMES + 1)], False)


def test_a_key_is_of_the_first_who_claims_it() -> None:
    owned, journal = made()
    owned.claim(BLUE, "key")
    owned.claim(BLUE, "key:again")
    assert len(journal) == 1
    with pytest.raises(errors.PermissionError_, match="is another's"):
        owned.claim(GREEN, "key:more")
    owned.claim(ADMIN, "key")
    assert owned.name_of("key:mop-up") == "blue"
    assert [owned.has_claimed(who, "key") for who in (BLUE, GREEN, NODE, ADMIN)] == [True, False, True, True]
    for key in ("", "other"):
        assert not owned.has_claimed(BLUE, key)
        with pytest.raises(errors.PermissionError_, match="auth_token_file="):
            owned.name_of(key)
    with pytest.raises(errors.PermissionError_, match="not a key of job green"):
        owned.check_claim(GREEN, "key")


def test_an_unnamed_admins_key_is_no_jobs() -> None:
    owned, _ = made()
    owned.claim(EVERYBODY, "key")
    assert owned.name_of("key") == ""
    assert not owned.has_claimed(BLUE, "key")


def test_one_name_does_not_drive_out_the_claims_of_others() -> None:
    owned, _ = made(max_claims=10)
    owned.claim(BLUE, "blue's")
    for number in range(100):
        owned.claim(GREEN, f"green's {number}")
    assert owned.name_of("blue's") == "blue"
    assert owned.name_of("green's 99") == "green"
    assert not owned.has_claimed(GREEN, "green's 0")


def test_keys_in_use_stay() -> None:
    owned, _ = made(max_claims=10)
    owned.claim(BLUE, "training")
    for number in range(100):
        owned.claim(BLUE, f"look {number}")
        owned.name_of("training")
    assert owned.name_of("training") == "blue"


def test_the_log_drives_out_the_same_claims_when_it_is_read() -> None:
    """A key that is in use must outlive the coordinator, too."""
    owned, journal = made(max_claims=10)
    owned.claim(BLUE, "training")
    for number in range(100):
        owned.claim(BLUE, f"look {number}")
        owned.name_of("training")
    assert len(journal) < 160, "not every use is written down"
    replayed, _ = made(max_claims=10)
    for record in journal:
        replayed.apply(record)
    assert list(replayed.still()()) == list(owned.still()())
    assert replayed.name_of("training") == "blue"


steps = st.lists(
    st.tuples(
        st.sampled_from(["acquire", "give_up", "share", "everybody", "claim", "forget"]),
        st.sampled_from([BLUE, GREEN, ADMIN, NODE, EVERYBODY]),
        st.sampled_from([ONE, TWO]),
    ),
    max_size=30,
)


@given(steps)
def test_the_log_and_a_snapshot_of_it_say_the_same(steps: list[tuple[str, Identity, bytes]]) -> None:
    owned, journal = made()
    for step, who, which in steps:
        if step == "acquire":
            owned.acquire(who, which)
        elif step == "give_up":
            owned.give_up(who, which)
        elif step in ("share", "everybody"):
            owned.share(which, ["red"] if step == "share" else [], step == "everybody")
        elif step == "claim":
            owned.claim(who, f"{which.decode()} of {who}")
        elif step == "forget":
            owned.forget(which)
            journal.append(CommitRecord(dataset_removed=DatasetRemoved(digest_id=which)))
    replayed, again = made()[0], made()[0]
    for record in journal:
        if record.HasField("dataset_removed"):
            replayed.forget(record.dataset_removed.digest_id)
        replayed.apply(record)
    for record in replayed.still()():
        again.apply(record)
    for one in (replayed, again):
        assert list(one.still()()) == list(owned.still()())
        for who in (BLUE, GREEN, RED):
            assert one.may_read(who, ONE) == owned.may_read(who, ONE)
