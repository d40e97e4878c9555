"""What references to credentials lead to: taken, or refused in words that say which reference, and no secret."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfquiver import errors
from tfquiver.stores.credentials import references
from tfquiver.stores.credentials.resolved import Access

SECRET = "hunter2"
REFERENCE = "file:/etc/team.json"
_GOOD = {"gs": {"endpoint": "http://127.0.0.1:1"}, "s3": {"key": "AKIA", "secret": "s", "endpoint_url": "http://h:1"}}


def refused(scheme: str, fields: dict[str, Any]) -> str:
    with pytest.raises(errors.InvalidArgumentError) as refusal:
        references.access(REFERENCE, json.dumps(_GOOD[scheme] | fields), scheme)
    return str(refusal.value)


@pytest.mark.parametrize(
    "value", [f"{SECRET}\n", f" {SECRET}", f"{SECRET}\0", f"{SECRET}é", [SECRET], {SECRET: SECRET}]
)
@pytest.mark.parametrize(("scheme", "name"), [("gs", "token"), ("s3", "key"), ("s3", "secret"), ("s3", "token")])
def test_what_no_header_can_carry_is_refused_before_a_library_repeats_it(scheme: str, name: str, value: object) -> None:
    said = refused(scheme, {name: value})
    assert said.startswith(f"credentials {REFERENCE}: {name} is no word")
    assert SECRET not in said


@pytest.mark.parametrize("value", [f"http://user:{SECRET}@host", f"::::{SECRET}", f"ht tp://{SECRET}", [SECRET], 5])
@pytest.mark.parametrize(("scheme", "name"), [("gs", "endpoint"), ("s3", "endpoint_url")])
def test_an_endpoint_that_is_none_is_refused(scheme: str, name: str, value: object) -> None:
    said = refused(scheme, {name: value})
    assert said.startswith(f"credentials {REFERENCE}: {name} is no http://")
    assert SECRET not in said


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:9000", "https://[::1]:9000", "https://s3.example.com/path"])
def test_good_ones_are_taken(endpoint: str) -> None:
    found = references.access(REFERENCE, json.dumps(_GOOD["s3"] | {"endpoint_url": endpoint, "token": "a/b+c="}), "s3")
    assert found.fields["endpoint_url"] == endpoint
    assert references.access(REFERENCE, '{"token": "ya29.a-b_c"}', "gs").fields == {"token": "ya29.a-b_c"}


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8).map(lambda text: text + SECRET),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)
_NAMES = st.sampled_from(
    ["key", "secret", "token", "endpoint", "endpoint_url", "region", "client_kwargs", "config_kwargs", "anon", "type"]
)


@pytest.mark.filterwarnings("ignore:The load_credentials:DeprecationWarning")
@given(st.dictionaries(_NAMES, _VALUES, max_size=4), st.sampled_from(["gs", "s3", "http"]))
def test_whatever_stands_there_is_taken_or_refused_in_words(fields: dict[str, Any], scheme: str) -> None:
    try:
        references.access(REFERENCE, json.dumps(fields), scheme)
    except errors.TfquiverError as error:
        assert REFERENCE in str(error)
        assert SECRET not in str(error)


@pytest.mark.parametrize("text", ['{"a":' * 12_000, f'{{"token": "{SECRET}"', f"[default\n{SECRET}", SECRET, ""])
def test_what_is_neither_json_nor_an_aws_file_is_not_repeated(text: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=REFERENCE) as refusal:
        references.access(REFERENCE, text, "s3")
    assert SECRET not in str(refusal.value)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(errors.TfquiverError, match=f"credentials file:{path}: "):
            references.read(f"file:{path}")


def test_others_are_told_no_name_and_password_of_an_endpoint() -> None:
    options = json.dumps({"endpoint": f"http://user:{SECRET}@host:1/a@b"})
    assert Access("gs", options).place == "gs=http://host:1/a@b"
