"""How a process reaches the stores: endpoints and credentials, resolved where the user's environment is.

A client resolves them and hands them to its node, so that each client's data are read with its own: never with those of
whoever happened to start the node. What is handed over is as little as possible: for gs:// an access token that can
only read, for an hour, and no key; for s3:// what botocore found, which for roles is temporary, too.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tfquiver import errors

_AZURE = ("abfs", "abfss", "az", "adl")
_AZURE_OPTIONS = (
    "account_name", "account_key", "connection_string", "sas_token", "client_id", "client_secret", "tenant_id", "anon",
)  # fmt: skip

_WHERE = dict.fromkeys(_AZURE, "account_name") | {"gs": "endpoint"}
# Who asks does not change who answers.
_WHO = re.compile("key|secret|token|password|username|sas|anon|client_id|tenant_id|project|requester_pays|profile")
_WHO_IN_URL = re.compile("(?<=//)[^/?#]*@")
_HARMLESS = {"client_kwargs": ("region_name", "verify"), "config_kwargs": ("s3",)}


@dataclass(frozen=True, slots=True, repr=False)
class Access:
    """`options`: JSON of what the scheme's store is opened with, secrets and all. `expires_at_s`: Unix time; 0: no."""

    scheme: str
    options: str
    expires_at_s: float = 0.0

    def __repr__(self) -> str:
        return f"Access({self.scheme}, ...)"

    @property
    def place(self) -> str:
        """Which store it is, where that is not the scheme's public one: the endpoint, and a hash of what else could
        lead elsewhere. Others are told it: no secrets.
        """
        options = self.fields
        where = _WHO_IN_URL.sub("", str(options.pop(_WHERE.get(self.scheme, "endpoint_url"), None) or ""), count=1)
        rest = {name: _leading(name, value) for name, value in options.items() if not _WHO.search(name)}
        leading = json.dumps({name: value for name, value in rest.items() if value}, sort_keys=True)
        more = "" if leading == "{}" else f" {hashlib.sha256(leading.encode()).hexdigest()[:32]}"
        return f"{self.scheme}={where}{more}" if where or more else ""

    @property
    def fields(self) -> dict[str, Any]:
        """Raises InvalidArgumentError (without what it holds)."""
        try:
            found = json.loads(self.options or "{}")
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise errors.InvalidArgumentError(f"stores: the options for {self.scheme}:// are not a JSON object")
        return found


def _leading(name: str, value: Any) -> Any:
    """What of an option's value can lead to another store."""
    if name == "connection_string":
        parts = str(value).split(";")
        return sorted(part for part in parts if not re.match("(?i)AccountKey=|SharedAccessSignature=", part))
    if isinstance(value, dict) and name in _HARMLESS:
        return {key: inner for key, inner in value.items() if key not in _HARMLESS[name]}
    return value


def place_in(place: str, scheme: str) -> str:
    """What a listing's place says of one scheme; "": its public store."""
    return next((line for line in place.split("\n") if line.startswith(f"{scheme}=")), "")


def place_of(accesses: Iterable[Access]) -> str:
    """Of a listing: the endpoints of all its schemes, as ListingTerms.place has them."""
    return "\n".join(sorted({access.place for access in accesses} - {""}))


def resolve(scheme: str) -> Access | None:
    """This process's way to a scheme's store, as its environment says now. None: it needs none.

    May ask a credential service; takes seconds at the most.

    Raises:
      UnauthenticatedError: no credentials, or unusable ones; says what to set.
    """
    match scheme:
        case "file":
            return None
        case "gs":
            try:
                from tfquiver.stores.credentials import google
            except ImportError:
                return None  # `stores` says what to install
            fields, expires_at_s = google.resolve()
        case "s3" | "s3a":
            try:
                from tfquiver.stores.credentials import s3
            except ImportError:
                return None  # `stores` says what to install
            fields, expires_at_s = s3.resolve(_fsspec_options(scheme))
        case _:
            fields, expires_at_s = _azure(scheme) | _fsspec_options(scheme), 0.0
            if not fields:
                return None
    return Access(scheme, json.dumps(fields, sort_keys=True), expires_at_s)


def _fsspec_options(scheme: str) -> dict[str, Any]:
    """What fsspec's own configuration (files, FSSPEC_*) says, as it is now."""
    try:
        from fsspec import config
    except ImportError:
        return {}
    found: dict[str, Any] = {}
    config.set_conf_files(config.conf_dir, found)
    config.set_conf_env(found)
    return {key: _boolean(value) for key, value in dict(found.get(scheme, {})).items()}


def _boolean(value: Any) -> Any:
    return {"true": True, "false": False}.get(value.lower(), value) if isinstance(value, str) else value


def _azure(scheme: str) -> dict[str, Any]:
    if scheme not in _AZURE:
        return {}
    named = {name: os.environ.get(f"AZURE_STORAGE_{name.upper()}") for name in _AZURE_OPTIONS}
    return {name: _boolean(value) for name, value in named.items() if value}
