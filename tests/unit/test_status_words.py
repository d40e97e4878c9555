"""What things are called in the tables of `tfquiver status`, and figures in few characters."""

from __future__ import annotations

import pytest

from tfquiver.cli.status_tables_and_warnings import words


@pytest.mark.parametrize(
    ("part", "whole", "shown"),
    [(0, 5, "0%"), (5, 5, "100%"), (1, 10_000, "1%"), (9_999, 10_000, "99%"), (1, 2, "50%"), (0, 0, "0%")],
)
def test_all_is_said_of_all_only(part: int, whole: int, shown: str) -> None:
    assert words.share(part, whole) == shown


@pytest.mark.parametrize(
    ("its", "shown"),
    [
        ({}, "-"),
        ({"resident_bytes": 0}, "0%"),
        ({"resident_bytes": 999, "resident_age_ms": 0, "chunks": 0}, "99%"),
        ({"resident_bytes": 1000, "resident_age_ms": 7}, "~100%"),
        ({"resident_bytes": 500, "chunks": 40, "resident_chunks": 20}, "50% 20/40"),
    ],
)
def test_how_much_is_cached(its: dict[str, int], shown: str) -> None:
    assert words.resident({"size_bytes": 1000, **its}) == shown


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("10.0.0.7:5041", "10.0.0.7"),
        ("rack1.cluster:5041", "rack1.cluster"),
        ("[fd00::7]:5041", "fd00::7"),
        ("localhost:5041", "here"),
        ("127.0.0.1:5041", "here"),
        ("unix:/cache/control.sock", "here"),
        ("nonsense", "nonsense"),
    ],
)
def test_the_host_of_a_node(address: str, host: str) -> None:
    assert words.host(address, "here") == host


@pytest.mark.parametrize(
    ("number", "size", "count"),
    [
        (0, "0 B", "0"),
        (999, "999 B", "999"),
        (1000, "1.0 kB", "1000"),
        (99_949, "99.9 kB", "99949"),
        (99_950, "100 kB", "99950"),
        (999_499, "999 kB", "999499"),
        (999_999, "1.0 MB", "999999"),
        (1_000_000, "1.0 MB", "1.0M"),
        (999_400_000, "999 MB", "999.4M"),
        (999_600_000, "1.0 GB", "1.0G"),
        ((1 << 64) - 1, "18.4 EB", "18.4E"),
    ],
)
def test_figures_are_short(number: int, size: str, count: str) -> None:
    assert (words.size(number), words.count(number)) == (size, count)
    assert len(size) <= 7 and len(count) <= 6


@pytest.mark.parametrize(
    ("job", "key", "shown"),
    [
        ("job-0123456789ab", "0123456789ab" + "0" * 20 + "-train", "train-0123"),
        ("job-0123456789ab", "0123456789ab" + "0" * 20 + "-train:3", "train-0123"),
        ("sweep/job-0123456789ab", "0123456789ab" + "0" * 20 + "-train", "sweep/train-0123"),
        ("sweep/job-0123456789ab", "ffff", "sweep/job-0123456789ab"),
        ("job-0123456789ab", "0123456789ab" + "0" * 20, "job-0123456789ab"),
        ("job-0123456789ab", "ffff", "job-0123456789ab"),
        ("sweep-7", "0123456789ab" + "0" * 20 + "-train", "sweep-7"),
    ],
)
def test_a_job_without_a_name_is_shown_by_its_program(job: str, key: str, shown: str) -> None:
    assert words.job({"job": job, "session_key": key}) == shown


def test_the_store_is_told_as_far_as_it_is_known() -> None:
    assert words.store({}) == words.store({"bytes_per_s": 0.0, "s_per_byte": 0.0}) == ""
    told = {"bytes_per_s": 3e6, "most_bytes_per_s": 4e6, "s_per_byte": 2.5e-7, "request_s_per_byte": 4e-6}
    # Nobody knows what it could give.
    rates = "store: 3.0 MB/s were read from it over the last ten seconds, in the best ten of the last hour 4.0 MB/s"
    assert words.store(told) == (
        f"{rates}; while anybody reads a MB comes every 250 ms, by 16 requests at a time that take 4,000 ms for one"
    )
    assert words.store({"limit_bytes_per_s": 2e8}) == "store: --store_bytes_per_s: 200 MB/s"
