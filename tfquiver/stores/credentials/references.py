"""Credentials by reference: a file, an environment variable or a mounted Kubernetes secret of the machine that reads.

What is found is an AWS credentials file, or JSON: for gs:// a key as Google hands it out, or {"token": ...}; for s3://
{"key", "secret", "token", "endpoint_url", "region"}; else what the scheme's store is opened with. No error repeats it.
"""

from __future__ import annotations

import configparser
import contextlib
import json
import os
import re
import stat
import time
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfquiver import errors
from tfquiver.stores.credentials.resolved import Access

SECRETS_DIR = "TFQUIVER_SECRETS_DIR"  # where Kubernetes secrets are mounted, a directory each
_SECRETS_DIR = "/var/run/secrets/tfquiver"
_MOST_BYTES = 64 << 10
_AWS = {
    "aws_access_key_id": "key", "aws_secret_access_key": "secret", "aws_session_token": "token",
    "access_key": "key", "secret_key": "secret", "session_token": "token", "endpoint": "endpoint_url",
}  # fmt: skip
# Libraries repeat what they cannot use: a token that ends with a newline stood in logs, and in what is listed.
_WORDS = {"gs": ("token", "quota_project"), "s3": ("key", "secret", "token"), "s3a": ("key", "secret", "token")}
_ENDPOINTS = {"gs": "endpoint", "s3": "endpoint_url", "s3a": "endpoint_url"}
_WORD = re.compile(r"[!-~]+")


def read(reference: str, environment: Mapping[str, str] = os.environ) -> str:
    """What stands there. Raises NotFoundError, PermissionError_, InvalidArgumentError, which name the reference."""
    kind, _, what = reference.partition(":")
    if kind == "env":
        if not (found := environment.get(what)):
            raise errors.NotFoundError(f"credentials {reference}: there is no such variable, or it is empty")
        return found
    path = Path(environment.get(SECRETS_DIR, _SECRETS_DIR), *what.split("/")) if kind == "k8s" else Path(what)
    if kind not in ("file", "k8s") or not path.is_absolute() or ".." in path.parts:
        raise errors.InvalidArgumentError(f"credentials {reference}: write file:/PATH, env:NAME or k8s:SECRET/KEY")
    try:
        # Who opened a pipe would wait for whoever writes it, and with him all who look up a reference.
        if not stat.S_ISREG(path.stat().st_mode):
            raise errors.InvalidArgumentError(f"credentials {reference}: no file")
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise errors.InvalidArgumentError(f"credentials {reference}: longer than {_MOST_BYTES} bytes")
        return data.decode()
    except UnicodeDecodeError:
        raise errors.InvalidArgumentError(f"credentials {reference}: not text") from None
    except OSError as error:
        raise errors.from_os_error(error, f"credentials {reference}") from error


def access(reference: str, text: str, scheme: str) -> Access:
    """How a scheme's store is reached with that. May ask Google for a token.

    Raises InvalidArgumentError, UnauthenticatedError, UnavailableError, which name the reference.
    """
    fields = _fields(reference, text)
    expires_at_s = 0.0
    try:
        if scheme == "gs":
            from tfquiver.stores.credentials import google

            fields, expires_at_s = google.of_key(fields)
        elif scheme in ("s3", "s3a"):
            fields = _s3(fields)
        _check(fields, scheme)
    except errors.TfquiverError as error:
        raise type(error)(f"credentials {reference}: {error}") from None
    until_s = fields.pop("expires_at_s", 0)
    if not isinstance(until_s, int | float):
        raise errors.InvalidArgumentError(f"credentials {reference}: expires_at_s is not a number, Unix time")
    if 0 < until_s <= time.time():
        raise errors.UnauthenticatedError(f"credentials {reference}: they have expired: renew what stands there")
    return Access(scheme, json.dumps(fields, sort_keys=True), expires_at_s or float(until_s))


def _fields(reference: str, text: str) -> dict[str, Any]:
    if text.lstrip().startswith("{"):
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            raise errors.InvalidArgumentError(f"credentials {reference}: they are no whole JSON object") from None
        return dict(found)
    parsed = configparser.ConfigParser(interpolation=None)
    with contextlib.suppress(configparser.Error):
        parsed.read_string(text)
    sections = parsed.sections()
    if not sections:
        raise errors.InvalidArgumentError(f"credentials {reference}: neither JSON nor an AWS credentials file")
    return dict(parsed["default" if "default" in sections else sections[0]])


def _s3(fields: dict[str, Any]) -> dict[str, Any]:
    named = {_AWS.get(name.lower(), name): value for name, value in fields.items()}
    if not isinstance(client := named.get("client_kwargs") or {}, dict):
        raise errors.InvalidArgumentError("client_kwargs is no JSON object")
    if region := named.pop("region", None):
        named["client_kwargs"] = {"region_name": region} | client
    if not named.get("anon") and not (named.get("key") and named.get("secret")):
        raise errors.UnauthenticatedError("for s3:// they need key and secret, or anon")
    return named


def _check(fields: Mapping[str, Any], scheme: str) -> None:
    """Raises InvalidArgumentError, which says of which field, and not what is in it."""
    for name in _WORDS.get(scheme, ()):
        if (value := fields.get(name)) and not (isinstance(value, str) and _WORD.fullmatch(value)):
            raise errors.InvalidArgumentError(
                f"{name} is no word of ASCII letters, digits and signs: is a space or newline in it, or at its end?"
            )
    name = _ENDPOINTS.get(scheme, "")
    if (endpoint := fields.get(name)) and not _is_endpoint(endpoint):
        raise errors.InvalidArgumentError(f"{name} is no http://HOST:PORT or https://HOST, without a user's name in it")


def _is_endpoint(given: Any) -> bool:
    if not isinstance(given, str) or not _WORD.fullmatch(given):
        return False
    try:
        url = urllib.parse.urlsplit(given if "://" in given else f"http://{given}")
        return url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0 and "@" not in url.netloc
    except ValueError:  # a port, or an address of IPv6, that is none
        return False
