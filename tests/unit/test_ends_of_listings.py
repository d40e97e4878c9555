from __future__ import annotations

import itertools

import pytest

from tfquiver import errors
from tfquiver.stores.listings.listing_pages import ListingPages


def test_a_listing_that_ends_is_none_of_its_business() -> None:
    pages = ListingPages("gs://bucket/*")
    for token in ("a", "b", "c", None):
        pages.came(token, 1000)


@pytest.mark.parametrize("tokens", ["aa", "aba", "abcb"])
def test_a_page_that_comes_again_ends_it(tokens: str) -> None:
    pages = ListingPages("gs://bucket/*")
    for token in tokens[:-1]:
        pages.came(token, 0)
    with pytest.raises(errors.UnavailableError, match=r"gs://bucket/\*: its listing does not end"):
        pages.came(tokens[-1], 0)


def test_one_that_goes_on_for_ever_ends_in_an_hour() -> None:
    now_s = itertools.count(0, 60)
    pages = ListingPages("gs://bucket/*", lambda: float(next(now_s)))
    with pytest.raises(errors.UnavailableError, match="has not ended after 61 pages and 3660 s"):
        for number in range(100):
            pages.came(f"{number}", 0)


def test_what_is_found_is_bounded() -> None:
    pages = ListingPages("gs://bucket/*")
    with pytest.raises(errors.InvalidArgumentError, match="more than 4000000 objects match"):
        for number in range(10_000):
            pages.came(f"{number}", 1000 * number)
