"""Room for digests that are being sent."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tfquiver import errors
from tfquiver.service.coordinator.registering_sharing_removing_datasets.coming_digests import ComingDigests


def test_who_announces_much_leaves_room_for_others() -> None:
    """Two calls that announced the largest digest kept everybody from registering for half an hour."""
    coming = ComingDigests(100)
    with ExitStack() as held:
        held.enter_context(coming.upload("job eve"))(100)
        with pytest.raises(errors.UnavailableError, match=r"100 B of other digests .* same sender, which has 100 B"):
            held.enter_context(coming.upload("job eve"))(1)
        held.enter_context(coming.upload("job ann"))(100)
        with pytest.raises(errors.UnavailableError, match="too many large digests"):
            held.enter_context(coming.upload("job bob"))(1)
        assert coming.size_bytes == 200
    assert not coming.size_bytes and not coming._by_sender
    with coming.upload("job eve") as take:
        take(100)


def test_several_of_one_sender_fit_while_they_are_small() -> None:
    coming = ComingDigests(100)
    with coming.upload("a") as first, coming.upload("a") as second:
        first(40)
        second(50)
        first(50)  # of the same digest: more of it has come
        with pytest.raises(errors.UnavailableError):
            second(51)
    with coming.upload("a") as take, pytest.raises(errors.ResourceExhaustedError, match="larger than 100 B"):
        take(101)
